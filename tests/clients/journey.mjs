// kafkajs: makes a topic, produces, reads in a group, looks at the group, deletes the topic.
// node journey.mjs <kafkajs's folder> <address> <topic> <group> <count>
import { createRequire } from "node:module";

const [folder, address, topic, groupId, count] = process.argv.slice(2);
const { Kafka, logLevel } = createRequire(`${folder}/`)("kafkajs");
const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR });
const values = Array.from({ length: Number(count) }, (_, n) => String(n).padStart(4, "0"));

const admin = kafka.admin();
await admin.connect();
await admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: true });

const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
await producer.connect();
await producer.send({ topic, messages: values.map((value) => ({ key: value, value })) });
await producer.disconnect();

const found = [];
const consumer = kafka.consumer({ groupId });
await consumer.connect();
await consumer.subscribe({ topic, fromBeginning: true });
await new Promise((resolve) => {
  consumer.run({
    eachMessage: async ({ message }) => {
      found.push(message.value.toString());
      if (found.length === values.length) resolve();
    },
  });
});
await consumer.stop();
await consumer.disconnect();

const offsets = await admin.fetchOffsets({ groupId, topics: [topic] });
const committed = offsets[0].partitions.reduce((sum, one) => sum + Math.max(Number(one.offset), 0), 0);
const ends = await admin.fetchTopicOffsets(topic);
const { groups } = await admin.listGroups();
const configs = await admin.describeConfigs({ resources: [{ type: 2, name: topic }] });
await admin.deleteGroups([groupId]);
const end = ends.reduce((sum, one) => sum + Number(one.high), 0);
console.log(
  JSON.stringify({
    found: found.sort(),
    committed,
    end,
    isListed: groups.some((one) => one.groupId === groupId),
    configs: configs.resources[0].configEntries.length,
  }),
);
await admin.disconnect();
