public class PrimesDora {
    /* A number is prime if no number from 2 to its half divides it. */
    public static boolean prime(int x) {
        boolean result = true;
        int half = x / 2;
        int d = 2;
        do {
            if (d <= half && x % d == 0) {
                result = false;
            }
            d++;
        } while (d <= half && result);
        return result;
    }

    public static void main(String[] args) {
        int count = 0;
        String line = "";
        for (int x = 2; x <= 199; ++x) {
            if (prime(x)) {
                count++;
                line = line + x + " ";
                if (count % 10 == 0) {
                    System.out.println(line.trim());
                    line = "";
                }
            }
        }
        System.out.println(line.trim());
        System.out.println(count + " primes");
    }
}
