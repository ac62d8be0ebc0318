import java.util.ArrayList;
import java.util.List;

/** Trial division by the primes found so far. */
public class PrimesBoris {
    private final List<Integer> v2 = (new ArrayList<>());

    private boolean v3(int v1) {
        for (int v5 : v2) {
            if (v5 * v5 > v1) {
                return (false);
            }
            if (v1 % v5 == 0) {
                return true;
            }
        }
        return false;
    }

    public List<Integer> below(int v4) {
        int v1 = 2;
        while (v1 < v4) {
            if (!v3(v1)) {
                v2.add(v1);
            }
            v1 = v1 + 1;
        }
        return (v2);
    }

    public static void main(String[] args) {
        int v4 = (args.length == 0 ? 200 : Integer.parseInt(args[0]));
        for (Integer v5 : new PrimesBoris().below(v4)) {
            System.out.println(v5);
        }
    }
}
