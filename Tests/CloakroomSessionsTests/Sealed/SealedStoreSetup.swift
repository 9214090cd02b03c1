import CloakroomCore
import Synchronization

@testable import CloakroomSessions

/// A server for records in memory, a connection to it, and the events of the stores on it.
struct SealedStoreSetup {
    final class RecordedEvents: Sendable {
        private let counts = Mutex<(ended: [SessionEndReason], unreadable: [SessionID], created: Int)>(([], [], 0))

        var ended: [SessionEndReason] { counts.withLock { $0.ended } }
        var unreadable: [SessionID] { counts.withLock { $0.unreadable } }
        var created: Int { counts.withLock { $0.created } }

        var events: SessionStoreCallbacks {
            SessionStoreCallbacks(
                onCreated: { self.counts.withLock { $0.created += 1 } },
                onEnded: { reason in self.counts.withLock { $0.ended.append(reason) } },
                onUnreadable: { id in self.counts.withLock { $0.unreadable.append(id) } })
        }
    }

    let server = RecordServer()
    let records: InMemoryRecords
    let told = RecordedEvents()
    /// A connected store.
    let store: SealedSessionStore<InMemoryRecords>

    init() {
        records = InMemoryRecords(server)
        store = SealedSessionStore(
            records, configuration: Sample.configuration, secrets: Sample.secrets, events: told.events)
        store.connectionChanged(isUp: true)
    }
}

extension RecordChangeDelegate {
    /// Establishes or loses the connection to all partitions.
    func connectionChanged(isUp: Bool, partitions: Int = 1) {
        partitionsChanged([0..<partitions], areTrusted: isUp, afterOutage: false)
    }
}

/// Tests of one store of sealed sessions, or several as replicas.
protocol SealedStoreSuite {
    var setup: SealedStoreSetup { get }
}

extension SealedStoreSuite {
    var start: SessionTime { Sample.start }
    var server: RecordServer { setup.server }
    var records: InMemoryRecords { setup.records }
    var told: SealedStoreSetup.RecordedEvents { setup.told }

    var store: SealedSessionStore<InMemoryRecords> { setup.store }

    /// Another connected store.
    func store(
        _ records: InMemoryRecords? = nil, configuration: SessionConfiguration = Sample.configuration,
        secrets: SealingKeyring = Sample.secrets
    ) -> SealedSessionStore<InMemoryRecords> {
        let store = SealedSessionStore(
            records ?? self.records, configuration: configuration, secrets: secrets, events: told.events)
        store.connectionChanged(isUp: true, partitions: store.records.partitionCount)
        return store
    }

    func isUnknown(_ lookup: SessionLookup) -> Bool {
        if case .notCached = lookup { true } else { false }
    }
}
