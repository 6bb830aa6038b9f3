import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * One instance of a Kafka Streams program that counts words exactly once; tests/clients/test_frameworks.py
 * starts several, and kills them.
 *
 * <pre>  BOOTSTRAP STATE_DIR   reads topic "lines", writes each new count of a word to topic "counts"</pre>
 */
public class Words {
    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        settings.putAll(Map.of(
                "application.id", "words",
                "bootstrap.servers", args[0],
                "state.dir", args[1],
                "processing.guarantee", "exactly_once_v2",
                "default.key.serde", Serdes.String().getClass(),
                "default.value.serde", Serdes.String().getClass(),
                "statestore.cache.max.bytes", 0,
                "num.standby.replicas", 1,
                "consumer.session.timeout.ms", 6000,
                "consumer.heartbeat.interval.ms", 1000));
        var builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count(Materialized.as("store"))
                .toStream()
                .mapValues(Object::toString)
                .to("counts");
        var streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.start();
        Thread.currentThread().join();
    }
}
