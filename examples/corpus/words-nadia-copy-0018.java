import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Map ;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
public class WordsNadia
{
        private static final Pattern NO_LETTERS = Pattern.compile ("[^\\p{L}]+") ;
        public static void main(String[] args) throws IOException {
                try (var lines = Files.lines(Path.of (args[0] )) )
{
                        TreeMap<String, Long> histogram = lines
                                .flatMap(NO_LETTERS::splitAsStream)
                                .filter (w -> !w.isEmpty() )
                                .collect(Collectors.groupingBy(String::toLowerCase , TreeMap::new, Collectors.counting ()) );
                        histogram.entrySet( ).stream( )
                                .sorted (Map.Entry.comparingByValue(Comparator.reverseOrder ( ) ))
                                .limit(25 )
                                .map(e -> e.getValue () + "\t" + e.getKey() )
                                .forEach(System.out::println);
                }
        }
}
