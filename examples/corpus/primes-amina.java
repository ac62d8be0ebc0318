// Homework 1: print all primes below a limit.
public class PrimesAmina {
    public static void main(String[] args) {
        int limit = 200;
        if (args.length > 0) {
            limit = Integer.parseInt(args[0]);
        }
        boolean[] composite = new boolean[limit];
        for (int p = 2; p < limit; p++) {
            if (composite[p]) {
                continue;
            }
            System.out.println(p);
            for (int multiple = 2 * p; multiple < limit; multiple += p) {
                composite[multiple] = true;
            }
        }
    }
}
