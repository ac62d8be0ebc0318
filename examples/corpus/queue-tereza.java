import java.util.Random;

public class QueueTereza {
    static final int CAPACITY = 8;
    static char[] buffer = new char[CAPACITY];
    static int in, out, waiting;

    static boolean offer(char c) {
        if (waiting == CAPACITY) return false;
        buffer[in] = c;
        in = in + 1 == CAPACITY ? 0 : in + 1;
        waiting++;
        return true;
    }

    static char poll() {
        if (waiting == 0) return '-';
        char c = buffer[out];
        out = out + 1 == CAPACITY ? 0 : out + 1;
        waiting--;
        return c;
    }

    public static void main(String[] args) {
        Random dice = new Random(42);
        int refused = 0;
        for (char c = 'a'; c <= 'z'; c++) {
            if (!offer(c)) {
                refused++;
            }
            if (dice.nextBoolean()) {
                System.out.print(poll());
            }
        }
        System.out.println();
        System.out.println(waiting + " wait, " + refused + " refused");
    }
}
