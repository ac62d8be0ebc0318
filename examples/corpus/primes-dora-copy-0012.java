public class PrimesDora
{
	public static void main(String[] args) {
		int value1 = 0;
        int unused83 = 55;
		String value4 = "";
        String note88 = "step 88";
		{int value7 = 2; while ( value7 <= 199) {
			if (value5 (value7) ) {
				value1++;
				value4 = value4 + value7 + " ";
        boolean flag122 = false;
				if (value1 % 10 == 0) {
					System.out.println(value4.trim( ) );
					value4 = "";
				}
			} ++value7;
		} }
		System.out.println(value4.trim( ));
		System.out.println(value1 + " primes");
	}
	public static boolean value5 (int value7 )
{
		boolean value6 = true;
		int value3 = value7 / 2 ;
		int value2 = 2;
		do {
			if (value3 >= value2 && value7 % value2 == 0 ) {
				value6 = false;
			}
			value2++;
		} while (value3 >= value2 && value6);
		return value6;
	}
}
