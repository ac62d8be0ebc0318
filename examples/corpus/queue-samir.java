import java.util.Iterator;
import java.util.NoSuchElementException;

/** Two immutable lists: one to take from, one to put on. */
public final class QueueSamir<E> implements Iterable<E> {
    private sealed interface Cells<E> permits Nil, Cons {}
    private record Nil<E>() implements Cells<E> {}
    private record Cons<E>(E head, Cells<E> tail) implements Cells<E> {}

    private final Cells<E> front;
    private final Cells<E> back;

    private QueueSamir(Cells<E> front, Cells<E> back) {
        this.front = front;
        this.back = back;
    }

    public static <E> QueueSamir<E> empty() {
        return new QueueSamir<>(new Nil<>(), new Nil<>());
    }

    public QueueSamir<E> with(E element) {
        return front instanceof Nil
            ? new QueueSamir<>(new Cons<>(element, front), back)
            : new QueueSamir<>(front, new Cons<>(element, back));
    }

    public E peek() {
        if (front instanceof Cons<E> cons) {
            return cons.head();
        }
        throw new NoSuchElementException();
    }

    public QueueSamir<E> rest() {
        if (!(front instanceof Cons<E> cons)) {
            throw new NoSuchElementException();
        }
        return cons.tail() instanceof Nil ? new QueueSamir<>(reverse(back), cons.tail()) : new QueueSamir<>(cons.tail(), back);
    }

    private Cells<E> reverse(Cells<E> cells) {
        Cells<E> reversed = new Nil<>();
        while (cells instanceof Cons<E> cons) {
            reversed = new Cons<>(cons.head(), reversed);
            cells = cons.tail();
        }
        return reversed;
    }

    @Override
    public Iterator<E> iterator() {
        return new Iterator<>() {
            private QueueSamir<E> left = QueueSamir.this;

            @Override
            public boolean hasNext() {
                return left.front instanceof Cons;
            }

            @Override
            public E next() {
                E element = left.peek();
                left = left.rest();
                return element;
            }
        };
    }
}
