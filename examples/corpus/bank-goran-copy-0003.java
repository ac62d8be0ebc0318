class Account {
    int number;
    int money;
    int[] moves = new int[100];
    int moveCount = 0;

    boolean change(int amount) {
        int after = money + amount;
        if (after < 0 || moveCount == moves.length) {
            return false;
        }
        money = after;
        moves[moveCount++] = amount;
        return true;
    }

    Account(int number) {
        this.number = number;
        this.money = 0;
    }

    void show() {
        System.out.println("Account " + number);
        int i = 0;
        while (i < moveCount) {
            System.out.println("  " + (i + 1) + ": " + moves[i]);
            i += 1;
        }
        System.out.println("  sum: " + money);
    }
}

public class BankGoran {
    public static void main(String[] args) {
        Account[] accounts = new Account[3];
        {int n = 0; while ( n < accounts.length) {
            accounts[n] = new Account(1000 + n);
            accounts[n].change(50 * (n + 1)); n += 1;
        } }
        if (!accounts[0].change(-70)) {
            System.out.println("refused");
        }
        accounts[2].change(-70);
        for (Account a : accounts) {
            a.show();
        }
    }
}
