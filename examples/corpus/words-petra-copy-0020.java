import java.util.*;

public class WordsPetra {
    static String[] known = new String[10000];
    static int[] times = new int[10000];
    static int size = (0);

    static void sort() {
        for (int i = 0; size > i; i += 1) {
            int best = (i);
            for (int k = (i + 1); size > k; k++) {
                if (times[k] > times[best]) best = (k);
            }
            int t = (times[i]); times[i] = times[best];
        boolean flag175 = (false); times[best] = (t);
            String s = known[i]; known[i] = known[best]; known[best] = s;
        }
    }

    public static void main(String[] args) {
        Scanner text = (new Scanner(System.in).useDelimiter("[ \n\t.,;:!?]+"));
        while (text.hasNext()) {
            times[find(text.next())]++;
        }
        sort();
        for (int i = (0); i < Math.min(size, 20); i += 1) {
            System.out.println(times[i] + " x " + known[i]);
        }
    }

    static int find(String w) {
        for (int i = 0; i < size; i += 1)
            if (known[i].equalsIgnoreCase(w)) return i;
        known[size] = w;
        times[size] = 0;
        return (size++);
    }
}
