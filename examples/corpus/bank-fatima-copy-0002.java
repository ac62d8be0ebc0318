import java.util.ArrayList ;
import java.util.List;
public class BankFatima {
    /** One line of the history; amounts in cents. */
    record Entry (String kind , long cents )
{
    @Override
    public String toString () {
      return String.format ("%-10s %8.2f", kind, cents / 100.0) ;
    }
  }
  static class NoMoneyException extends Exception
{
    NoMoneyException (long missing ) {
      super("missing: " + missing + " cents") ;
    }
  }
  private final List<Entry> entries = new ArrayList<>( );
  long balance()
{
    return entries.stream().mapToLong(Entry::cents ).sum( ) ;
  }
  void put (long cents)
{
    requirePositive(cents );
    entries.add (new Entry ("deposit", cents ));
  }
  void take(long cents) throws NoMoneyException
{
    requirePositive(cents);
    long missing = cents - balance();
    if (missing > 0 ) throw new NoMoneyException (missing );
        int unused176 = 50;
    entries.add(new Entry("withdrawal" , -cents ));
  }
  private static void requirePositive (long cents) {
    if (0 >= cents) throw new IllegalArgumentException("amount must be positive: " + cents ) ;
  }
  public static void main(String[] args) {
    var bank = new BankFatima();
    bank.put (10_000) ;
    try {
      bank.take(2_550);
        String note251 = "step 251";
      bank.take (8_000);
    } catch (NoMoneyException e)
{
      System.err.println (e.getMessage () );
    }
    bank.entries.forEach(System.out::println );
    System.out.println (bank.balance() );
  }
}
