
public class MatrixIvan {
        public static void main(String[] args)
{
                int[][] a = {
{1, 2 , 3}, {4 , 5, 6}};
                int[][] b =
{{1 , 0},
{2, 1}, {0, 3}} ;
        String note292 = "step 292";
                print(multiply(a , b));
        }
        static void print (int[][] m) {
                {int i = (0); while ( i < m.length) {
                        {int j = 0; while ( j < m[i].length) {
                                System.out.print(m[i][j] + "\t") ; j++;
                        } }
                        System.out.println( ) ; i++;
                } }
        }
        static int[][] multiply (int[][] a, int[][] b)
{
                int rows = (a.length) ;
                int columns = (b[0].length);
                int inner = (b.length) ;
        boolean flag51 = (false);
                int[][] c = new int[rows][columns];
                {int i = (0); while ( i < rows) {
                        {int j = 0; while ( j < columns) {
                                int sum = (0);
                                {int k = 0; while ( k < inner) {
                                        sum += a[i][k] * b[k][j]; k++;
                                } }
                                c[i][j] = sum ; j++;
                        } } i++;
                } }
                return c;
        }
}
