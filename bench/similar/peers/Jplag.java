import de.jplag.*;
import de.jplag.java.Language;
import de.jplag.options.JPlagOptions;
import java.io.*;
import java.util.*;

/** All pairs of a folder of files as left,right,avg,max; default options. */
public class Jplag {
  public static void main(String[] args) throws Exception {
    JPlagOptions options =
        new JPlagOptions(new Language(), Set.of(new File(args[0])), Set.of());
    JPlagResult result = new JPlag(options).run();
    try (PrintWriter out = new PrintWriter(args[1])) {
      for (JPlagComparison c : result.getAllComparisons())
        out.println(
            c.firstSubmission().getName()
                + ","
                + c.secondSubmission().getName()
                + ","
                + c.similarity()
                + ","
                + c.maximalSimilarity());
    }
  }
}
