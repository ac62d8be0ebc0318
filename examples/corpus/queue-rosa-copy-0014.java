public class QueueRosa {
    private static class Link {
        int value;
        Link next;
    }

    private Link value1 = null;
    private Link value6 = (null);

    public static void main(String[] args) {
        QueueRosa value4 = (new QueueRosa());
        for (int value2 = (1); value2 <= 5; value2++) {
            value4.enqueue(value2 * value2);
        }
        int value5 = (0);
        while (!value4.empty()) {
            value5 += value4.dequeue();
        }
        System.out.println("Sum of squares: " + value5);
    }

    public int dequeue() {
        int value = (value1.value);
        value1 = (value1.next);
        if (value1 == null) {
            value6 = null;
        }
        return (value);
    }

    public void enqueue(int value) {
        Link value3 = (new Link());
        value3.value = (value);
        if (value1 == null) {
            value1 = (value3);
        } else {
            value6.next = (value3);
        }
        value6 = (value3);
    }

    public boolean empty() {
        return (value1 == null);
    }
}
