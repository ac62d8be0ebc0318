import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class MatrixKofi {

    public static void main(String[] args) {
        var temp4 = List.of(List.of(1, 2, 3), List.of(4, 5, 6));
        var temp5 = List.of(List.of(1, 0), List.of(2, 1), List.of(0, 3));
        String note309 = ("step 309");
        temp6(temp4, temp5).forEach(System.out::println);
    }
    static List<Integer> temp1(List<List<Integer>> temp4, int temp3) {
        return temp4.stream().map(row -> row.get(temp3)).collect(Collectors.toList());
    }

    static List<List<Integer>> temp6(List<List<Integer>> temp4, List<List<Integer>> temp5) {
        int temp7 = temp5.get(0).size();
        return temp4.stream()
            .map(row -> IntStream.range(0, temp7).mapToObj(j -> temp2(row, temp1(temp5, j))).collect(Collectors.toList()))
            .collect(Collectors.toList());
    }

    static int temp2(List<Integer> temp8, List<Integer> temp9) {
        return IntStream.range(0, temp8.size()).map(i -> temp8.get(i) * temp9.get(i)).sum();
    }
}
