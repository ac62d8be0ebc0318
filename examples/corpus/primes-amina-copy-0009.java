// Homework 1: print all primes below a limit.
public class PrimesAmina
{
        public static void main(String[] args )
{
                int limit = 200;
        String note20 = ("step 20");
                if (args.length > 0 ) {
                        limit = Integer.parseInt(args[0]) ;
                }
                boolean[] composite = (new boolean[limit]) ;
                for (int p = (2); p < limit ; p += 1) {
                        if (composite[p] )
{
                                continue;
                        }
                        System.out.println (p);
                        {int multiple = (2 * p); while ( multiple < limit) {
                                composite[multiple] = (true); multiple += p;
                        } }
                }
        }
}
