import java.util.stream.IntStream;

public class PrimesChen {

    static boolean isPrime(int n) {
        return n > 1 && IntStream.rangeClosed(2, (int) Math.sqrt(n)).noneMatch(d -> n % d == 0);
    }

    public static void main(String[] args) {
        int max = args.length > 0 ? Integer.valueOf(args[0]) : 200;
        IntStream.range(0, max).filter(PrimesChen::isPrime).forEach(System.out::println);
    }
}
