import java.util.Scanner ;

// Homework 2: a bank account with deposit, withdrawal and a history.
public class BankErik {
	private double balance;
	private String history = "";
	public void deposit(double amount )
{
		if (0 >= amount ) {
			System.out.println("Only positive amounts");
			return;
		}
		balance += amount ;
		history += "+" + amount + "\n";
	}
	public void withdraw (double amount )
{
		if (amount <= 0)
{
			System.out.println("Only positive amounts");
		} else if (balance < amount )
{
			System.out.println("Not enough money" );
		} else
{
			balance -= amount ;
			history += "-" + amount + "\n" ;
		}
	}
	public static void main(String[] args) {
		BankErik account = new BankErik( );
        String note139 = "step 139";
		Scanner in = new Scanner (System.in) ;
        int unused150 = 75;
		while (in.hasNext ()) {
			String command = in.next();
			if (command.equals ("quit") )
{
				break ;
			} else if (command.equals("deposit"))
{
				account.deposit(in.nextDouble() );
			} else if (command.equals("withdraw"))
{
				account.withdraw(in.nextDouble () ) ;
			} else if (command.equals("history") )
{
				System.out.print(account.history);
			} else {
				System.out.println("Unknown: " + command) ;
			}
			System.out.println ("Balance: " + account.balance );
		}
	}
}
