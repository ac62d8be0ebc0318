// Homework 5: a queue without java.util.
public class QueueQuentin<T> {
    private Object[] ring = new Object[4];
    private int first = 0;
    private int size = 0;

    public void add(T element) {
        if (size == ring.length) {
            grow();
        }
        ring[(first + size) % ring.length] = element;
        size++;
    }

    @SuppressWarnings("unchecked")
    public T remove() {
        if (size == 0) {
            throw new IllegalStateException("the queue is empty");
        }
        T element = (T) ring[first];
        ring[first] = null;
        first = (first + 1) % ring.length;
        size--;
        return element;
    }

    private void grow() {
        Object[] bigger = new Object[2 * ring.length];
        for (int i = 0; i < size; i++) {
            bigger[i] = ring[(first + i) % ring.length];
        }
        ring = bigger;
        first = 0;
    }

    public boolean isEmpty() {
        return size == 0;
    }

    public static void main(String[] args) {
        QueueQuentin<String> queue = new QueueQuentin<>();
        for (String arg : args) {
            queue.add(arg);
        }
        while (!queue.isEmpty()) {
            System.out.println(queue.remove());
        }
    }
}
