import java.util.stream.IntStream;

public class PrimesChen {

    static boolean temp1(int temp3) {
        return temp3 > 1 && IntStream.rangeClosed(2, (int) Math.sqrt(temp3)).noneMatch(d -> temp3 % d == 0);
    }

    public static void main(String[] args) {
        int temp2 = args.length > 0 ? Integer.valueOf(args[0]) : 200;
        IntStream.range(0, temp2).filter(PrimesChen::temp1).forEach(System.out::println);
    }
}
