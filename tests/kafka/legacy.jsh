// Message sets of magic 0 and 1, written by Kafka's own classes: brokers no longer write them.
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.TimestampType;

void write(byte magic, String name, Compression compression) throws Exception {
    var all = ByteBuffer.allocate(1 << 16);
    long offset = 100;
    for (int batch = 0; batch < 3; batch++) {
        var builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 15), magic, compression, TimestampType.CREATE_TIME, offset);
        for (int i = 0; i < 5; i++, offset++) {
            long timestamp = magic == 0 ? -1L : 1700000000000L + offset * 7 - (i == 2 ? 50 : 0);
            byte[] key = i == 1 ? null : ("key-" + offset).getBytes();
            byte[] value = i == 3 ? null : ("value-" + offset).repeat(i).getBytes();
            builder.appendWithOffset(offset, timestamp, key, value);
        }
        all.put(builder.build().buffer());
    }
    byte[] bytes = new byte[all.flip().remaining()];
    all.get(bytes);
    var folder = Path.of(System.getProperty("target"), "magic" + magic + "-" + name + "-0");
    Files.createDirectories(folder);
    Files.write(folder.resolve("00000000000000000100.log"), bytes);
}

for (byte magic : new byte[] {0, 1}) {
    write(magic, "none", Compression.NONE);
    write(magic, "gzip", Compression.gzip().build());
    write(magic, "snappy", Compression.snappy().build());
    write(magic, "lz4", Compression.lz4().build());
}
/exit
