import java.util.Scanner;

public class MatrixLena {
    static Scanner keyboard = new Scanner(System.in);

    static double[][] read(String name) {
        System.out.print("Rows and columns of " + name + ": ");
        double[][] matrix = new double[keyboard.nextInt()][keyboard.nextInt()];
        for (double[] row : matrix) {
            for (int i = 0; i < row.length; ++i) {
                row[i] = keyboard.nextDouble();
            }
        }
        return matrix;
    }

    public static void main(String[] args) {
        double[][] first = read("the first matrix");
        double[][] second = read("the second matrix");
        if (first[0].length != second.length) {
            System.out.println("These cannot be multiplied.");
            System.exit(1);
        }
        double[][] result = new double[first.length][second[0].length];
        // Row by row: add multiples of the rows of the second.
        int r = 0;
        while (r < first.length) {
            int s = 0;
            while (s < second.length) {
                double factor = first[r][s];
                for (int t = 0; t < second[s].length; t++) {
                    result[r][t] = result[r][t] + factor * second[s][t];
                }
                s = s + 1;
            }
            r = r + 1;
        }
        for (double[] row : result) {
            for (double value : row) {
                System.out.printf("%10.3f", value);
            }
            System.out.println();
        }
    }
}
