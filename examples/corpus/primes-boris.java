import java.util.ArrayList;
import java.util.List;

/** Trial division by the primes found so far. */
public class PrimesBoris {
    private final List<Integer> found = new ArrayList<>();

    private boolean hasDivisor(int candidate) {
        for (int prime : found) {
            if (prime * prime > candidate) {
                return false;
            }
            if (candidate % prime == 0) {
                return true;
            }
        }
        return false;
    }

    public List<Integer> below(int limit) {
        int candidate = 2;
        while (candidate < limit) {
            if (!hasDivisor(candidate)) {
                found.add(candidate);
            }
            candidate = candidate + 1;
        }
        return found;
    }

    public static void main(String[] args) {
        int limit = args.length == 0 ? 200 : Integer.parseInt(args[0]);
        for (Integer prime : new PrimesBoris().below(limit)) {
            System.out.println(prime);
        }
    }
}
