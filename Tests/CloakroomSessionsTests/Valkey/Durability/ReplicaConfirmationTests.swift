import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Confirmations of the server's replicas")
struct ReplicaConfirmationTests {
    @Test("Writes wait for the configured number of replicas, and for no more than are connected")
    func awaited() {
        var confirmation = ReplicaConfirmation(required: 2)
        for (connected, awaited) in [(nil, 2), (0, 0), (1, 1), (2, 2), (5, 2)] as [(Int?, Int)] {
            confirmation.replicasReported(connected)
            expect(confirmation.awaited, equals: awaited)
        }
    }

    @Test("Three waits in a row without confirmation are a pause; then one wait decides")
    func pause() {
        var confirmation = ReplicaConfirmation(required: 1)
        confirmation.replicasReported(1)
        for _ in 0..<2 {
            confirmation.waited(for: 1, confirmed: 0)
            confirmation.waited(for: 1, confirmed: 0)
            expect(confirmation.awaited, equals: 1)
            confirmation.waited(for: 1, confirmed: 1)
        }
        for _ in 0..<3 { confirmation.waited(for: 1, confirmed: 0) }
        expect(confirmation.awaited, equals: 0)
        confirmation.replicasReported(1)
        expect(confirmation.awaited, equals: 1)
        confirmation.waited(for: 1, confirmed: 0)
        expect(confirmation.awaited, equals: 0)
        confirmation.replicasReported(1)
        confirmation.waited(for: 1, confirmed: 1)
        confirmation.waited(for: 1, confirmed: 0)
        expect(confirmation.awaited, equals: 1)
    }

    @Test("A rejected wait is a long pause")
    func rejected() {
        var confirmation = ReplicaConfirmation(required: 1)
        confirmation.rejected()
        for _ in 1..<ReplicaConfirmation.reportsPausedAfterRejection {
            confirmation.replicasReported(nil)
            expect(confirmation.awaited, equals: 0)
        }
        confirmation.replicasReported(nil)
        expect(confirmation.awaited, equals: 1)
    }

    @Test("The number of replicas is read from the role of a primary only")
    func role() {
        let replica = RESPValue.array([.simple("127.0.0.1"), .simple("1"), .simple("0")])
        func count(_ elements: RESPValue...) -> Int? { ReplicaConfirmation.replicaCount(.array(elements)) }
        expect(count(.simple("master"), .integer(7), .array([])), equals: 0)
        expect(count(.simple("master"), .integer(7), .array([replica, replica])), equals: 2)
        expect(count(.simple("slave"), .simple("a"), .integer(1), .simple("connected"), .integer(7)), equals: nil)
        expect(count(.simple("master"), .integer(7)), equals: nil)
        expect(count(.simple("master"), .integer(7), .integer(2)), equals: nil)
        expect(ReplicaConfirmation.replicaCount(.null), equals: nil)
    }
}
