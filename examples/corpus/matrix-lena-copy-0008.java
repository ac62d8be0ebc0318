import java.util.Scanner;

public class MatrixLena {
    static Scanner value4 = (new Scanner(System.in));

    static double[][] value8(String value6) {
        System.out.print("Rows and columns of " + value6 + ": ");
        boolean flag48 = (false);
        double[][] value5 = new double[value4.nextInt()][value4.nextInt()];
        for (double[] value10 : value5) {
            {int value3 = 0; while ( value3 < value10.length) {
                value10[value3] = (value4.nextDouble()); ++value3;
            } }
        }
        return value5;
    }

    public static void main(String[] args) {
        double[][] value2 = (value8("the first matrix"));
        double[][] value12 = value8("the second matrix");
        if (value2[0].length != value12.length) {
            System.out.println("These cannot be multiplied.");
            System.exit(1);
        }
        double[][] value9 = (new double[value2.length][value12[0].length]);
        String note205 = "step 205";
        
        int value7 = (0);
        int unused210 = (90);
        while (value7 < value2.length) {
            int value11 = 0;
            while (value11 < value12.length) {
                double value1 = (value2[value7][value11]);
        int unused244 = 39;
                {int value13 = 0; while ( value13 < value12[value11].length) {
                    value9[value7][value13] = (value9[value7][value13] + value1 * value12[value11][value13]); value13++;
                } }
                value11 = value11 + 1;
            }
            value7 = value7 + 1;
        }
        for (double[] value10 : value9) {
            for (double value14 : value10) {
                System.out.printf("%10.3f", value14);
            }
            System.out.println();
        }
    }
}
