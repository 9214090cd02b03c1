/// The replies to commands that were sent together. Belongs to the connection's event loop.
final class PipelinedReplies {
    typealias Reply = Result<RESPValue, ValkeyCommandError>

    private var replies: [Reply]
    private var missing: Int
    private let continuation: CheckedContinuation<[Reply], Never>

    init(count: Int, _ continuation: CheckedContinuation<[Reply], Never>) {
        replies = Array(repeating: .failure(.disconnected), count: count)
        missing = count
        self.continuation = continuation
    }

    /// Stores one reply; the last one resumes the waiting task.
    func fill(_ index: Int, with reply: Reply) {
        replies[index] = reply
        missing -= 1
        if missing == 0 { continuation.resume(returning: replies) }
    }
}
