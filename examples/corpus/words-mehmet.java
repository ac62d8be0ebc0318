import java.io.File;
import java.io.FileNotFoundException;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;

// Homework 4: how often does each word occur in a file?
public class WordsMehmet {
    public static void main(String[] args) throws FileNotFoundException {
        Map<String, Integer> counts = new HashMap<>();
        Scanner scanner = new Scanner(new File(args[0]));
        while (scanner.hasNext()) {
            String word = scanner.next().toLowerCase();
            if (counts.containsKey(word)) {
                counts.put(word, counts.get(word) + 1);
            } else {
                counts.put(word, 1);
            }
        }
        scanner.close();
        int most = 0;
        String top = null;
        for (Map.Entry<String, Integer> entry : counts.entrySet()) {
            System.out.println(entry.getKey() + " " + entry.getValue());
            if (entry.getValue() > most) {
                most = entry.getValue();
                top = entry.getKey();
            }
        }
        System.out.println("The most frequent word is " + top + " (" + most + " times)");
    }
}
