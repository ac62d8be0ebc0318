import java.io.File;
import java.io.FileNotFoundException;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;


public class WordsMehmet {
    public static void main(String[] args) throws FileNotFoundException {
        Map<String, Integer> temp1 = new HashMap<>();
        Scanner temp4 = new Scanner(new File(args[0]));
        while (temp4.hasNext()) {
            String temp6 = temp4.next().toLowerCase();
            if (temp1.containsKey(temp6)) {
                temp1.put(temp6, temp1.get(temp6) + 1);
            } else {
                temp1.put(temp6, 1);
            }
        }
        temp4.close();
        int temp3 = 0;
        String temp5 = null;
        for (Map.Entry<String, Integer> temp2 : temp1.entrySet()) {
            System.out.println(temp2.getKey() + " " + temp2.getValue());
            if (temp2.getValue() > temp3) {
                temp3 = temp2.getValue();
                temp5 = temp2.getKey();
            }
        }
        System.out.println("The most frequent word is " + temp5 + " (" + temp3 + " times)");
    }
}
