public class QueueRosa {
    private static class Link {
        int value;
        Link next;
    }

    private Link head = null;
    private Link tail = null;

    public boolean empty() {
        return head == null;
    }

    public void enqueue(int value) {
        Link link = new Link();
        link.value = value;
        if (head == null) {
            head = link;
        } else {
            tail.next = link;
        }
        tail = link;
    }

    public int dequeue() {
        int value = head.value;
        head = head.next;
        if (head == null) {
            tail = null;
        }
        return value;
    }

    public static void main(String[] args) {
        QueueRosa q = new QueueRosa();
        for (int i = 1; i <= 5; i++) {
            q.enqueue(i * i);
        }
        int sum = 0;
        while (!q.empty()) {
            sum += q.dequeue();
        }
        System.out.println("Sum of squares: " + sum);
    }
}
