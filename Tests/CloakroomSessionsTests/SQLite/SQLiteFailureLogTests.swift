import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The log of a SQLite file's failures")
struct SQLiteFailureLogTests {
    private let recorded = RecordedLog()
    private let start = ContinuousClock.now
    private let full = SQLiteStoreError(.sqlite(SQLiteError(code: 13)), path: "/f")
    private let damaged = SQLiteStoreError(.sqlite(SQLiteError(code: 11)), path: "/f")

    /// The first words of the lines.
    private var lines: [String] { recorded.texts.map { $0.hasPrefix("error") ? "failed" : "recovered" } }

    @Test("has a line for a failure and one for the recovery, each kind of operation for itself")
    func once() {
        let log = SQLiteFailureLog(recorded.logger)
        for _ in 0..<3 { log.failed(.writing, full, now: start) }
        log.succeeded(.reading, now: start)
        expect(lines, equals: ["failed"])
        expect(log.isFailing)
        expect(log.isFailing(.writing))
        expect(!log.isFailing(.reading))
        for _ in 0..<3 { log.succeeded(.writing, now: start) }
        expect(lines, equals: ["failed", "recovered"])
        expect(!log.isFailing)
    }

    @Test("ends with the failure while it returns within a minute, whatever succeeds in between")
    func returning() {
        let log = SQLiteFailureLog(recorded.logger)
        log.failed(.writing, full, now: start)
        log.succeeded(.writing, now: start + .seconds(1))
        for second in 2..<100 {
            log.failed(.writing, full, now: start + .seconds(second))
            log.succeeded(.writing, now: start + .seconds(second))
        }
        expect(lines, equals: ["failed", "recovered", "failed"])
        log.succeeded(.writing, now: start + .seconds(158))
        expect(log.isFailing)
        log.succeeded(.writing, now: start + .seconds(159))
        expect(lines, equals: ["failed", "recovered", "failed", "recovered"])
        expect(!log.isFailing)
    }

    @Test("ends with the failure of a damaged file until nothing fails for a minute, or another file is opened")
    func damage() {
        let log = SQLiteFailureLog(recorded.logger)
        log.failed(.reading, damaged, now: start)
        log.failed(.reading, SQLiteStoreError(.notADatabase, path: "/f"), now: start + .seconds(1))
        log.succeeded(.reading, now: start + .seconds(60))
        expect(lines, equals: ["failed"])
        expect(log.isFailing)
        log.succeeded(.reading, now: start + .seconds(61))
        expect(lines, equals: ["failed", "recovered"])
        log.failed(.reading, damaged, now: start + .seconds(200))
        log.fileReplaced()
        expect(lines, equals: ["failed", "recovered", "failed", "recovered"])
        expect(!log.isFailing)
    }

    @Test("has a line of its own for damaged data, with which the store does not fail")
    func damagedData() {
        let log = SQLiteFailureLog(recorded.logger)
        for second in 0..<3 { log.failed(.damaged, damaged, now: start + .seconds(second)) }
        expect(recorded.texts.count, equals: 1)
        expect(recorded.texts.first?.hasPrefix("error session store is damaged in part"), equals: true)
        expect(!log.isFailing)
        expect(log.isFailing(.damaged))
        log.failed(.writing, damaged, now: start)
        expect(log.isFailing)
        log.succeeded(.writing, now: start + .seconds(60))
        expect(!log.isFailing)
        log.succeeded(.damaged, now: start + .seconds(61))
        expect(log.isFailing(.damaged))
        log.succeeded(.damaged, now: start + .seconds(62))
        expect(!log.isFailing(.damaged))
        expect(recorded.texts.last?.hasPrefix("notice session store recovered"), equals: true)
    }
}
