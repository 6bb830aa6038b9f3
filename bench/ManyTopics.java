import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One producer of Kafka's Java client, with its defaults, writes to many topics at a fixed rate:
 * bench/gateway_topics.py starts it, and reads its lines.
 *
 * <pre>
 *   BOOTSTRAP TOPICS PARTITIONS RATE WARM_SECONDS SECONDS
 *   begun                    when the topics are known and the warming up is over
 *   RATE MEDIAN P99 MAX      records/s, and from send() to the acknowledgement in ms
 * </pre>
 *
 * Records of 100 bytes go to the partitions of topic-0, topic-1, … in turns.
 */
public class ManyTopics {
    static final byte[] VALUE = new byte[100];

    public static void main(String[] args) {
        int partitions = number(args[2]), rate = number(args[3]);
        List<String> topics = IntStream.range(0, number(args[1])).mapToObj(i -> "topic-" + i).toList();
        try (var producer = new KafkaProducer<byte[], byte[]>(
                Map.of("bootstrap.servers", args[0]), new ByteArraySerializer(), new ByteArraySerializer())) {
            topics.forEach(producer::partitionsFor);
            send(producer, topics, partitions, rate, number(args[4]));
            System.out.println("begun");
            long began = System.nanoTime();
            long[] nanos = send(producer, topics, partitions, rate, number(args[5]));
            double seconds = (System.nanoTime() - began) / 1e9;
            Arrays.sort(nanos);
            System.out.printf(
                    "%.1f %.3f %.3f %.3f%n",
                    nanos.length / seconds,
                    nanos[nanos.length / 2] / 1e6,
                    nanos[(int) (nanos.length * 0.99)] / 1e6,
                    nanos[nanos.length - 1] / 1e6);
        }
    }

    static int number(String text) {
        return Integer.parseInt(text);
    }

    /** Send for so many seconds; the nanoseconds that each record took. */
    static long[] send(
            KafkaProducer<byte[], byte[]> producer, List<String> topics, int partitions, int rate, int seconds) {
        long[] nanos = new long[rate * seconds];
        var failure = new AtomicReference<Exception>();
        long first = System.nanoTime();
        for (int i = 0; i < nanos.length; i++) {
            long due = first + i * 1_000_000_000L / rate;
            while (System.nanoTime() < due) LockSupport.parkNanos(due - System.nanoTime());
            int slot = i, place = i % (topics.size() * partitions);
            String topic = topics.get(place % topics.size());
            long asked = System.nanoTime();
            producer.send(new ProducerRecord<>(topic, place / topics.size(), null, VALUE), (told, error) -> {
                nanos[slot] = System.nanoTime() - asked;
                if (error != null) failure.set(error);
            });
        }
        producer.flush();
        if (failure.get() != null) throw new IllegalStateException(failure.get());
        return nanos;
    }
}
