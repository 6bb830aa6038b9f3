import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's Java client runs transactions: bench/transactions.py starts it, and reads its last line.
 *
 * <pre>
 *   write BOOTSTRAP TOPIC PRODUCERS TRANSACTIONS RECORDS   transactions/s, median and p99 of one in ms
 *   read  BOOTSTRAP TOPIC ISOLATION COUNT                  records/s
 *   wait  BOOTSTRAP TOPIC TRANSACTIONS                     median and p99 in ms from commitTransaction's
 *                                                          return to the records at a waiting consumer
 * </pre>
 *
 * Records of 100 bytes go to 4 partitions in turns. A fifth of the transactions warm up.
 */
public class Transactions {
    static final int PARTITIONS = 4;
    static final byte[] VALUE = new byte[100];

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "write" -> write(args[1], args[2], number(args[3]), number(args[4]), number(args[5]));
            case "read" -> read(args[1], args[2], args[3], number(args[4]));
            case "wait" -> waiting(args[1], args[2], number(args[3]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    static int number(String text) {
        return Integer.parseInt(text);
    }

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id) {
        var producer = new KafkaProducer<byte[], byte[]>(
                Map.of("bootstrap.servers", bootstrap, "transactional.id", id),
                new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String topic, String isolation) {
        var consumer = new KafkaConsumer<byte[], byte[]>(
                Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation,
                        "max.poll.records", "10000", "enable.auto.commit", "false"),
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(IntStream.range(0, PARTITIONS).mapToObj(p -> new TopicPartition(topic, p)).toList());
        return consumer;
    }

    /** One transaction; the records are told apart by their timestamps. */
    static void transact(KafkaProducer<byte[], byte[]> producer, String topic, int records, long time) {
        producer.beginTransaction();
        for (int i = 0; i < records; i++) {
            producer.send(new ProducerRecord<>(topic, i % PARTITIONS, time, null, VALUE));
        }
        producer.flush(); // else EndTxn may overtake the batches: the client has a race
        producer.commitTransaction();
    }

    static void write(String bootstrap, String topic, int producers, int count, int records)
            throws Exception {
        var barrier = new CyclicBarrier(producers + 1);
        var done = new CountDownLatch(producers);
        List<long[]> all = new ArrayList<>();
        for (int p = 0; p < producers; p++) {
            long[] nanos = new long[count];
            all.add(nanos);
            String id = "bench-" + p;
            new Thread(() -> {
                try (var producer = producer(bootstrap, id)) {
                    for (int i = 0; i < count / 5; i++) transact(producer, topic, records, 0);
                    barrier.await();
                    for (int i = 0; i < count; i++) {
                        long began = System.nanoTime();
                        transact(producer, topic, records, 0);
                        nanos[i] = System.nanoTime() - began;
                    }
                    done.countDown();
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            }).start();
        }
        barrier.await();
        long began = System.nanoTime();
        done.await();
        double seconds = (System.nanoTime() - began) / 1e9;
        long[] nanos = all.stream().flatMapToLong(Arrays::stream).toArray();
        System.out.printf("%.3f %s%n", producers * count / seconds, median(nanos));
    }

    static String median(long[] nanos) {
        Arrays.sort(nanos);
        return String.format(
                "%.3f %.3f", nanos[nanos.length / 2] / 1e6, nanos[(int) (nanos.length * 0.99)] / 1e6);
    }

    static void read(String bootstrap, String topic, String isolation, int count) {
        try (var consumer = consumer(bootstrap, topic, isolation)) {
            consumer.seekToBeginning(consumer.assignment());
            int found = consumer.poll(Duration.ofSeconds(30)).count(); // connected, metadata known
            long began = System.nanoTime();
            int first = found;
            while (found < count) {
                found += consumer.poll(Duration.ofSeconds(30)).count();
            }
            System.out.printf("%.1f%n", (found - first) / ((System.nanoTime() - began) / 1e9));
        }
    }

    static void waiting(String bootstrap, String topic, int count) throws Exception {
        var answered = new ConcurrentHashMap<Long, Long>();
        var arrived = new ConcurrentHashMap<Long, Long>();
        var reader = new Thread(() -> {
            try (var consumer = consumer(bootstrap, topic, "read_committed")) {
                consumer.seekToEnd(consumer.assignment());
                consumer.assignment().forEach(consumer::position);
                while (arrived.size() < count) {
                    for (var record : consumer.poll(Duration.ofMillis(500))) {
                        arrived.putIfAbsent(record.timestamp(), System.nanoTime());
                    }
                }
            }
        });
        reader.start();
        Thread.sleep(3000);
        try (var producer = producer(bootstrap, "bench-wait")) {
            for (long i = 1; i <= count; i++) {
                transact(producer, topic, 10, i);
                answered.put(i, System.nanoTime());
                Thread.sleep(20);
            }
        }
        reader.join();
        long[] nanos = answered.entrySet().stream()
                .mapToLong(one -> Math.max(0, arrived.get(one.getKey()) - one.getValue())).toArray();
        System.out.println(median(nanos));
    }
}
