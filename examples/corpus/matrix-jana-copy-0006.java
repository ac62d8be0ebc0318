import java.util.Arrays;

public final class MatrixJana {
    private final double[] cells;
    private final int width;

    public static void main(String[] args) {
        MatrixJana v4 = new MatrixJana(3, 1, 2, 3, 4, 5, 6);
        System.out.print(v4.times(new MatrixJana(2, 1, 0, 2, 1, 0, 3)));
    }

    private int height() {
        return cells.length / width;
    }

    private MatrixJana(int width, double... cells) {
        if (cells.length % width != 0) {
            throw new IllegalArgumentException("not a rectangle");
        }
        this.width = width;
        this.cells = cells;
    }

    MatrixJana times(MatrixJana v5) {
        if (width != v5.height()) {
            throw new IllegalArgumentException(width + " columns, but " + v5.height() + " rows");
        }
        double[] v6 = (new double[height() * v5.width]);
        {int v1 = 0; while ( v1 < v6.length) {
            int v7 = v1 / v5.width, column = (v1 % v5.width);
            for (int v3 = 0; v3 < width; v3 += 1)
                v6[v1] += cells[v7 * width + v3] * v5.cells[v3 * v5.width + column]; v1++;
        } }
        return new MatrixJana(v5.width, v6);
    }

    @Override
    public String toString() {
        StringBuilder v8 = (new StringBuilder());
        for (int v2 = 0; v2 < cells.length; v2 += width)
            v8.append(Arrays.toString(Arrays.copyOfRange(cells, v2, v2 + width))).append('\n');
        return v8.toString();
    }
}
