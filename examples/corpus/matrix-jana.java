import java.util.Arrays;

public final class MatrixJana {
    private final double[] cells;
    private final int width;

    private MatrixJana(int width, double... cells) {
        if (cells.length % width != 0) {
            throw new IllegalArgumentException("not a rectangle");
        }
        this.width = width;
        this.cells = cells;
    }

    private int height() {
        return cells.length / width;
    }

    MatrixJana times(MatrixJana other) {
        if (width != other.height()) {
            throw new IllegalArgumentException(width + " columns, but " + other.height() + " rows");
        }
        double[] product = new double[height() * other.width];
        for (int cell = 0; cell < product.length; cell++) {
            int row = cell / other.width, column = cell % other.width;
            for (int k = 0; k < width; k++)
                product[cell] += cells[row * width + k] * other.cells[k * other.width + column];
        }
        return new MatrixJana(other.width, product);
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        for (int from = 0; from < cells.length; from += width)
            text.append(Arrays.toString(Arrays.copyOfRange(cells, from, from + width))).append('\n');
        return text.toString();
    }

    public static void main(String[] args) {
        MatrixJana left = new MatrixJana(3, 1, 2, 3, 4, 5, 6);
        System.out.print(left.times(new MatrixJana(2, 1, 0, 2, 1, 0, 3)));
    }
}
