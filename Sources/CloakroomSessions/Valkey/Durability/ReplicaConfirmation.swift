/// Decides whether writes wait for the server's replicas: not while it has none, and not while they do not confirm.
///
/// A server without a connected replica would let every write wait for the whole time limit. So the number of replicas
/// is asked for at intervals (``replicasReported(_:)``), and repeated missing confirmations are a pause until the next
/// report.
struct ReplicaConfirmation: Sendable {
    /// The number of waits without enough confirmations, one after the other, that cause a pause.
    static let toleratedShortfalls = 3
    /// The number of reports that a pause lasts if the server rejects the command: a user without the permission will not
    /// get it within seconds.
    static let reportsPausedAfterRejection = 12

    /// The number of replicas that the configuration requires.
    let required: Int
    /// The number of replicas by the last report; `nil` if the server hides it.
    private var connected: Int?
    private var shortfalls = 0
    /// The number of reports that the pause still lasts.
    private var pausedReports = 0

    init(required: Int) {
        self.required = required
    }

    /// The number of replicas to wait for now; 0 for none.
    var awaited: Int {
        pausedReports > 0 ? 0 : min(required, connected ?? required)
    }

    /// The server was asked for its connected replicas.
    /// - Parameter count: `nil` if it did not permit the question.
    mutating func replicasReported(_ count: Int?) {
        connected = count
        guard pausedReports > 0 else { return }
        pausedReports -= 1
        // One wait decides whether the pause goes on.
        if pausedReports == 0 { shortfalls = Self.toleratedShortfalls - 1 }
    }

    /// A wait has ended.
    /// - Parameters:
    ///   - confirmed: The number of replicas that have confirmed.
    ///   - awaited: The number waited for.
    mutating func waited(for awaited: Int, confirmed: Int) {
        guard confirmed < awaited else {
            shortfalls = 0
            return
        }
        shortfalls += 1
        if shortfalls >= Self.toleratedShortfalls { pausedReports = 1 }
    }

    /// The server rejected the command to wait.
    mutating func rejected() {
        pausedReports = Self.reportsPausedAfterRejection
    }
}

extension ReplicaConfirmation {
    /// The number of connected replicas in a reply to `ROLE`: of a primary, its third element lists them.
    /// - Returns: `nil` if it is not the reply of a primary.
    static func replicaCount(_ role: RESPValue) -> Int? {
        guard let elements = role.elements, elements.count >= 3, elements[0].text == "master" else { return nil }
        return elements[2].elements?.count
    }
}
