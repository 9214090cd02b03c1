import Logging
import NIOPosix
import NIOSSL
import TestSupport

@testable import CloakroomCore
@testable import CloakroomSessions

/// One gateway's store on a server, with its recorded notifications.
struct Replica: Sendable {
    let records: ValkeyRecordStore
    let changes = RecordingChangeDelegate()
    let log = RecordedLog()
    private let running: Task<Void, Never>

    /// Starts the store without waiting for the connection.
    init(_ configuration: ValkeyConfiguration, tls: TLSConfiguration? = nil) throws {
        let records = try ValkeyRecordStore(
            configuration, tls: tls, group: MultiThreadedEventLoopGroup.singleton, logger: log.logger)
        self.records = records
        running = Task { [changes] in await records.run(changes) }
    }

    /// Starts the store and waits for the connection.
    static func up(_ configuration: ValkeyConfiguration, tls: TLSConfiguration? = nil) async throws -> Replica {
        let replica = try Replica(configuration, tls: tls)
        try await replica.isUp()
        return replica
    }

    /// The same with a time limit of commands that only a server that hangs exceeds.
    static func up(_ server: RedisServer) async throws -> Replica {
        try await up(ValkeyConfiguration(addresses: [server.address], timeout: .seconds(10)))
    }

    func isUp() async throws {
        try await eventually("the store is connected, to all servers") {
            changes.isUp && changes.trustedCount == HashSlot.count
        }
    }

    func isDown() async throws {
        try await eventually("the store is disconnected") { !changes.isUp }
    }

    func stop() async {
        running.cancel()
        await running.value
    }
}

extension SessionRecord {
    static let start = SessionTime(seconds: 1_700_000_000)

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
