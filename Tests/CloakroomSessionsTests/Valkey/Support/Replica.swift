import CloakroomCore
import Logging
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport

@testable import CloakroomSessions

/// One gateway's store on a server, with its recorded notifications.
struct Replica: Sendable {
    let records: ValkeyRecordStore
    let changes = RecordedChanges()
    let log = RecordedLog()
    private let running: Task<Void, Never>

    /// Starts the store without waiting for the connection.
    init(_ configuration: ValkeyConfiguration, tls: TLSConfiguration? = nil) throws {
        let records = try ValkeyRecordStore(
            configuration, tls: tls, group: MultiThreadedEventLoopGroup.singleton, logger: log.logger)
        self.records = records
        running = Task { [changes] in await records.run(changes, idleTimeout: .seconds(900)) }
    }

    /// Starts the store and waits for the connection.
    static func up(_ configuration: ValkeyConfiguration, tls: TLSConfiguration? = nil) async throws -> Replica {
        let replica = try Replica(configuration, tls: tls)
        try await replica.isUp()
        return replica
    }

    static func up(_ server: RedisServer) async throws -> Replica {
        try await up(ValkeyConfiguration(addresses: [server.address]))
    }

    func isUp() async throws {
        try await eventually("the store is connected") { changes.isUp }
    }

    func isDown() async throws {
        try await eventually("the store is disconnected") { !changes.isUp }
    }

    func stop() async {
        running.cancel()
        await running.value
    }
}

/// Records the notifications of a store.
final class RecordedChanges: RecordChangeDelegate {
    enum Event: Sendable, Hashable {
        case up
        case down
        case changed(SessionID)
        case allChanged
    }

    private let listener = Mutex<(any RecordChangeDelegate)?>(nil)
    private let recorded = Mutex<[(event: Event, at: ContinuousClock.Instant)]>([])

    var events: [Event] { recorded.withLock { $0.map(\.event) } }
    var isUp: Bool { recorded.withLock { $0.last { $0.event == .up || $0.event == .down }?.event == .up } }

    func count(_ event: Event) -> Int { events.count { $0 == event } }

    /// Waits until an event was reported the given number of times.
    /// - Returns: The time of the last report.
    @discardableResult
    func waits(for event: Event, count: Int = 1) async throws -> ContinuousClock.Instant {
        try await eventually("\(event) is reported") { self.count(event) >= count }
        return recorded.withLock { told in
            told.filter { $0.event == event }.dropFirst(count - 1).first?.at ?? .now
        }
    }

    /// Forwards the notifications to another receiver from now on.
    func forward(to other: any RecordChangeDelegate) { listener.withLock { $0 = other } }

    func connectionChanged(isUp: Bool) {
        add(isUp ? .up : .down)
        listener.withLock { $0 }?.connectionChanged(isUp: isUp)
    }

    func recordChanged(_ id: SessionID) {
        add(.changed(id))
        listener.withLock { $0 }?.recordChanged(id)
    }

    func allRecordsChanged() {
        add(.allChanged)
        listener.withLock { $0 }?.allRecordsChanged()
    }

    func expired(idle: Int, absolute: Int) {}

    private func add(_ event: Event) {
        let now = ContinuousClock.now
        recorded.withLock { $0.append((event, now)) }
    }
}

extension SessionRecord {
    static let start = Timestamp(seconds: 1_700_000_000)

    /// A sample record, distinguished by a number.
    static func sample(_ number: UInt64 = 1, account: UInt64 = 7, version: UInt64 = 1) -> SessionRecord {
        SessionRecord(
            key: SessionKey(number, 2, 3, UInt64.max - number), account: account, createdAt: start,
            expiresAt: start + .seconds(3_600), lastUsedAt: start, version: version,
            contents: Array("sealed\r\n\u{0}\(number)/\(version)".utf8), client: [0, 13, 10, 255])
    }

    var id: SessionID { key.id }
}

extension ValkeyRecordStore {
    /// Inserts a record that expires after 15 minutes.
    func insert(_ record: SessionRecord) async throws(SessionStoreError) -> Bool {
        try await insert(record, keepUntil: SessionRecord.start + .seconds(900), now: SessionRecord.start)
    }

    func read(_ id: SessionID) async throws(SessionStoreError) -> RecordLookup {
        try await read(id, now: SessionRecord.start)
    }
}
