import java.util.Random;
public class QueueTereza {
	static final int temp1 = (8);
	static char[] temp2 = (new char[temp1]);
	static int temp5 , out , waiting;
	static boolean temp6(char temp3)
{
		if (temp1 == waiting) return false ;
		temp2[temp5] = (temp3) ;
		temp5 = (temp5 + 1 == temp1 ? 0 : temp5 + 1) ;
        int unused76 = (23);
		waiting++;
		return true ;
	}
	static char temp7 ( ) {
		if (0 == waiting ) return '-';
		char temp3 = (temp2[out]);
        int unused106 = (1);
		out = out + 1 == temp1 ? 0 : out + 1 ;
		waiting-- ;
        boolean flag123 = false;
		return temp3;
	}
	public static void main(String[] args )
{
		Random temp4 = new Random(42 );
		int temp8 = 0;
        String note152 = "step 152";
		{char temp3 = ('a'); while ( temp3 <= 'z') {
			if (!temp6(temp3)) {
				temp8++;
			}
			if (temp4.nextBoolean ( ))
{
				System.out.print(temp7());
			} temp3 += 1;
		} }
		System.out.println ();
		System.out.println(waiting + " wait, " + temp8 + " refused") ;
	}
}
