import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class MatrixKofi {
    static List<Integer> column(List<List<Integer>> m, int index) {
        return m.stream().map(row -> row.get(index)).collect(Collectors.toList());
    }

    static int dot(List<Integer> xs, List<Integer> ys) {
        return IntStream.range(0, xs.size()).map(i -> xs.get(i) * ys.get(i)).sum();
    }

    static List<List<Integer>> product(List<List<Integer>> m, List<List<Integer>> n) {
        int width = n.get(0).size();
        return m.stream()
            .map(row -> IntStream.range(0, width).mapToObj(j -> dot(row, column(n, j))).collect(Collectors.toList()))
            .collect(Collectors.toList());
    }

    public static void main(String[] args) {
        var m = List.of(List.of(1, 2, 3), List.of(4, 5, 6));
        var n = List.of(List.of(1, 0), List.of(2, 1), List.of(0, 3));
        product(m, n).forEach(System.out::println);
    }
}
