// Package rheowatermill is a Watermill Pub/Sub over a [rheo.Instance]: a topic is
// a stream, a consumer group is a group, and a message is an event.
//
//   - Delivery is at least once. A message that its subscriber has neither acked
//     nor nacked is renewed for as long as the process lives, and delivered again
//     after the lease if it dies. The store fences: the ack of a subscriber that
//     has lost the message meanwhile changes nothing.
//   - Subscribers of a group compete, in one process and over many. Within a
//     subscription one message at a time is handed out, the next after the ack or
//     nack; subscribe several times to handle several at once.
//   - Order holds within a partition of the topic if the group has
//     [rheo.OrderingPartition]; there a nacked message holds its partition until
//     it has been acked, or has become a dead letter.
//   - A nack counts as an attempt: after rheo.GroupConfig.MaxAttempts the message
//     is a dead letter, which [rheo.Instance.DeadLetters] lists. See
//     [SubscriberConfig].NackAs and [Reject] for other choices.
//   - Consumption deletes nothing: a group created later reads the topic from its
//     beginning, and [rheo.Instance.Replay] delivers again.
//
// A message's UUID is the event's ID. So publishing a UUID again that the topic's
// partition holds appends nothing: a publish whose outcome is not known may be
// repeated. Its metadata is the event's metadata. A payload that is JSON is the
// event's payload, which can be queried, and may come back in another spelling of
// the same value; any other comes back byte for byte, as every payload does with
// [PublisherConfig].ExactPayload.
package rheowatermill
