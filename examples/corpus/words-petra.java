import java.util.*;

public class WordsPetra {
    static String[] known = new String[10000];
    static int[] times = new int[10000];
    static int size = 0;

    static int find(String w) {
        for (int i = 0; i < size; i++)
            if (known[i].equalsIgnoreCase(w)) return i;
        known[size] = w;
        times[size] = 0;
        return size++;
    }

    static void sort() {
        for (int i = 0; i < size; i++) {
            int best = i;
            for (int k = i + 1; k < size; k++) {
                if (times[k] > times[best]) best = k;
            }
            int t = times[i]; times[i] = times[best]; times[best] = t;
            String s = known[i]; known[i] = known[best]; known[best] = s;
        }
    }

    public static void main(String[] args) {
        Scanner text = new Scanner(System.in).useDelimiter("[ \n\t.,;:!?]+");
        while (text.hasNext()) {
            times[find(text.next())]++;
        }
        sort();
        for (int i = 0; i < Math.min(size, 20); i++) {
            System.out.println(times[i] + " x " + known[i]);
        }
    }
}
