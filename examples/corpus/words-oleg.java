import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;

public class WordsOleg {
    static class Node {
        String word;
        int count = 1;
        Node left, right;

        Node(String word) {
            this.word = word;
        }
    }

    static Node insert(Node tree, String word) {
        if (tree == null) {
            return new Node(word);
        }
        int order = word.compareTo(tree.word);
        if (order == 0) {
            tree.count++;
        } else if (order < 0) {
            tree.left = insert(tree.left, word);
        } else {
            tree.right = insert(tree.right, word);
        }
        return tree;
    }

    static void print(Node tree) {
        if (tree != null) {
            print(tree.left);
            System.out.println(tree.word + ": " + tree.count);
            print(tree.right);
        }
    }

    public static void main(String[] args) throws IOException {
        Node tree = null;
        StringBuilder word = new StringBuilder();
        try (Reader reader = new FileReader(args[0])) {
            for (int c = reader.read(); c != -1; c = reader.read()) {
                if (Character.isLetter(c)) {
                    word.append(Character.toLowerCase((char) c));
                } else if (word.length() > 0) {
                    tree = insert(tree, word.toString());
                    word.setLength(0);
                }
            }
        }
        if (word.length() > 0) {
            tree = insert(tree, word.toString());
        }
        print(tree);
    }
}
