import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/**
 * Threads that compress blocks with zlib and check that they come back.
 *
 * <p>A Java program's objects never see malloc. What does is native memory: each Deflater is a quarter of a megabyte of
 * zlib's, each direct buffer is a block of its own, and the virtual machine's compiler threads use a great deal of it.
 * So each operation makes both anew, as a server does for a request, and the rest of the program is as small as it can be.
 */
public final class Deflate {
    private static final int BLOCK_BYTES = 32 * 1024;

    public static void main(String[] arguments) throws Exception {
        int threads = 1;
        int amount = 3000;
        for (int index = 0; index < arguments.length; index += 2) {
            int value = index + 1 < arguments.length ? positive(arguments[index + 1]) : 0;
            switch (value > 0 ? arguments[index] : "") {
                case "--threads" -> threads = value;
                case "--amount" -> amount = value;
                default -> {
                    System.err.println("usage: java Deflate.java [--threads N] [--amount N]");
                    System.exit(2);
                }
            }
        }
        System.out.printf(
                "{\"workload\":\"deflate\",\"threads\":%d,\"operations\":%d,\"digest\":\"%016x\"}%n",
                threads, amount, onThreads(threads, amount));
    }

    /** The number, or 0 where it is none. */
    private static int positive(String text) {
        try {
            return Math.max(Integer.parseInt(text), 0);
        } catch (NumberFormatException notANumber) {
            return 0;
        }
    }

    /** The digests of all blocks, added up, so that it does not matter which thread had which block. */
    private static long onThreads(int threads, int amount) throws InterruptedException, ExecutionException {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<Long>> digests = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            int first = thread;
            digests.add(pool.submit(() -> {
                long digest = 0;
                for (int block = first; block < amount; block += threads) {
                    digest += thereAndBack(block);
                }
                return digest;
            }));
        }
        pool.shutdown();
        long sum = 0;
        for (Future<Long> digest : digests) {
            sum += digest.get();
        }
        return sum;
    }

    private static long thereAndBack(int seed) throws DataFormatException, IOException {
        ByteBuffer block = ByteBuffer.allocateDirect(BLOCK_BYTES);
        fill(block, seed);
        ByteBuffer packed = ByteBuffer.allocateDirect(BLOCK_BYTES + 1024);
        Deflater deflater = new Deflater(Deflater.BEST_SPEED);
        deflater.setInput(block.duplicate());
        deflater.finish();
        deflater.deflate(packed);
        deflater.end();
        packed.flip();

        ByteBuffer unpacked = ByteBuffer.allocateDirect(BLOCK_BYTES);
        Inflater inflater = new Inflater();
        inflater.setInput(packed.duplicate());
        inflater.inflate(unpacked);
        inflater.end();
        unpacked.flip();
        if (!block.equals(unpacked)) {
            throw new IOException("block " + seed + " did not come back as it was");
        }
        CRC32 checksum = new CRC32();
        checksum.update(packed);
        return checksum.getValue();
    }

    /** Text of few letters: something to compress, but not too much. */
    private static void fill(ByteBuffer block, int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        while (block.remaining() >= Long.BYTES) {
            block.putLong(random.nextLong() & 0x0303_0303_0303_0303L | 0x6060_6060_6060_6060L);
        }
        block.flip();
    }
}
