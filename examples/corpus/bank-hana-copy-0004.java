import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader ;
import java.math.BigDecimal;
import java.util.LinkedList;
public class BankHana
{
        static BigDecimal total = BigDecimal.ZERO ;
        static LinkedList<String> log = new LinkedList<String>();
        static String execute (String[] words) {
                switch (words[0] )
{
                        case "d":
                                total = total.add(new BigDecimal(words[1] ) );
                                log.addLast("in " + words[1] ) ;
                                return "ok";
                        case "w":
                                BigDecimal wanted = new BigDecimal (words[1]);
                                if (total.compareTo(wanted) < 0)
{
                                        return "too much, you have " + total;
                                }
                                total = total.subtract(wanted);
                                log.addLast("out " + words[1] );
                                return "ok" ;
                        case "l":
                                return String.join ("; ", log ) ;
                        default:
                                return "d AMOUNT, w AMOUNT or l" ;
                }
        }
        public static void main(String[] args) throws IOException
{
                BufferedReader reader = new BufferedReader (new InputStreamReader(System.in));
                String line;
                while ( (line = reader.readLine( )) != null ) {
                        try {
                                System.out.println(execute (line.trim ( ).split(" +"))) ;
                        } catch (NumberFormatException | ArrayIndexOutOfBoundsException e)
{
                                System.out.println ("what?" ) ;
                        }
                }
        }
}
