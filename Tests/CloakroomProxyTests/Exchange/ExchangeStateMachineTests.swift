import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("What becomes of one request")
struct ExchangeStateMachineTests {
    @Test("A request without a body: lease, send, relay, done")
    func plainExchange() {
        var machine = ExchangeStateMachine()
        machine.forward(hasBody: false)
        #expect(machine.state == .waitingForConnection(.complete))
        #expect(machine.leased() == .send)
        #expect(machine.responseStarted() == true)
        #expect(machine.responseEnded() == true)
        #expect(machine.state == .idle)
    }

    @Test("A body goes on from the lease until it ends, and not before")
    func bodyExchange() {
        var machine = ExchangeStateMachine()
        machine.forward(hasBody: true)
        #expect(!machine.acceptsBody)
        #expect(machine.leased() == .send)
        #expect(machine.acceptsBody)
        #expect(machine.requestEnded() == .finishRequest)
        #expect(!machine.acceptsBody)
        #expect(machine.responseStarted() == true)
        #expect(machine.responseEnded() == true)
    }

    @Test("An answer that ends before the request ends the exchange")
    func earlyResponse() {
        var machine = ExchangeStateMachine()
        machine.forward(hasBody: true)
        #expect(machine.leased() == .send)
        #expect(machine.responseStarted() == true)
        #expect(machine.acceptsBody)
        #expect(machine.responseEnded() == true)
        #expect(machine.requestEnded() == .nothing)
    }

    @Test("A request that may be repeated is leased for anew, and one with an open body never is")
    func retry() {
        var machine = Self.machine(in: .awaitingResponse(.complete))
        #expect(machine.upstreamFailed(mayRetry: true) == .retry)
        #expect(machine.state == .waitingForConnection(.complete))
        #expect(machine.leased() == .send)
        #expect(machine.upstreamFailed(mayRetry: false) == .respond)

        var open = Self.machine(in: .awaitingResponse(.open))
        #expect(open.upstreamFailed(mayRetry: true) == .respond)
    }

    @Test("A refused token: the exchange waits for another one, and the whole request is sent once more")
    func replay() {
        var machine = Self.machine(in: .awaitingResponse(.complete))
        #expect(machine.tokenRejected() == true)
        #expect(machine.state == .suspended)
        #expect(machine.resume() == .proceed)
        machine.replay()
        #expect(machine.state == .waitingForConnection(.complete))
        #expect(machine.leased() == .send)
    }

    @Test("There is no second try for a request that is not all sent, or whose answer has begun")
    func noReplay() {
        for state in [
            ExchangeStateMachine.State.awaitingResponse(.open), .streamingResponse(.complete), .tunneling(.open),
            .waitingForConnection(.complete),
            .idle,
        ] {
            var machine = Self.machine(in: state)
            #expect(machine.tokenRejected() == false)
            #expect(machine.state == state)
        }
    }

    @Test("Nothing is retried once the client has part of an answer (RFC 9110 §9.2.2)")
    func noRetryAfterHead() {
        for body in [ExchangeStateMachine.RequestBody.open, .complete] {
            var machine = Self.machine(in: .streamingResponse(body))
            #expect(machine.upstreamFailed(mayRetry: true) == .cut)
        }
    }

    @Test("A tunnel: the client ends its side first, then the upstream (RFC 6455 §4)")
    func tunnelEndedByClient() {
        var machine = Self.machine(in: .awaitingResponse(.complete))
        #expect(machine.switched() == true)
        #expect(machine.acceptsBody)
        #expect(machine.isRelaying)
        #expect(machine.requestEnded() == .halfClose)
        #expect(!machine.acceptsBody)
        #expect(machine.isRelaying)
        #expect(machine.tunnelEnded() == .finish)
        #expect(machine.state == .idle)
    }

    @Test("A tunnel: the upstream ends its side first, then the client (RFC 6455 §4)")
    func tunnelEndedByUpstream() {
        var machine = Self.machine(in: .tunneling(.open))
        #expect(machine.tunnelEnded() == .halfClose)
        #expect(machine.acceptsBody)
        #expect(!machine.isRelaying)
        #expect(machine.requestEnded() == .finishTunnel)
        #expect(machine.state == .idle)
    }

    @Test("A client that goes while work is under way off the loop is not resumed")
    func parkedAndGone() {
        var machine = ExchangeStateMachine()
        machine.suspend()
        #expect(machine.resume() == .proceed)
        #expect(machine.downstreamClosed() == .record)
        #expect(machine.resume() == .drop)
    }

    /// What each event gives in each state, and the state after it where that changes.
    private static let table: [(ExchangeStateMachine.State, [Event: String])] = [
        (.idle, [:]),
        (
            .waitingForConnection(.open),
            [
                .leased: "send > sent(open)", .failed: "answer", .failedSafely: "answer", .deadline: "refuse",
                .clientGone: "cancelLease > idle",
            ]
        ),
        (
            .waitingForConnection(.complete),
            [
                .leased: "send > sent(complete)", .failed: "answer", .failedSafely: "answer", .deadline: "refuse",
                .clientGone: "cancelLease > idle",
            ]
        ),
        (
            .awaitingResponse(.open),
            [
                .requestEnded: "finishRequest > sent(complete)", .responseBegan: "true > relaying(open)",
                .failed: "answer", .failedSafely: "answer", .deadline: "requestTimeout",
                .clientGone: "closeUpstream > idle",
            ]
        ),
        (
            .awaitingResponse(.complete),
            [
                .requestEnded: "finishRequest", .responseBegan: "true > relaying(complete)",
                .switched: "true > tunnelling(open)", .failed: "answer",
                .failedSafely: "retry > leasing(complete)", .deadline: "responseTimeout",
                .clientGone: "closeUpstream > idle",
            ]
        ),
        (
            .streamingResponse(.open),
            [
                .requestEnded: "finishRequest > relaying(complete)", .responseEnded: "true > idle", .failed: "cut",
                .failedSafely: "cut", .deadline: "cut", .clientGone: "closeUpstream > idle",
            ]
        ),
        (
            .streamingResponse(.complete),
            [
                .requestEnded: "finishRequest", .responseEnded: "true > idle", .failed: "cut", .failedSafely: "cut",
                .deadline: "cut", .clientGone: "closeUpstream > idle",
            ]
        ),
        (
            .tunneling(.open),
            [
                .requestEnded: "halfClose > tunnelling(complete)", .tunnelEnded: "halfClose > tunnelEnding",
                .failed: "cut", .failedSafely: "cut", .deadline: "cut", .clientGone: "closeTunnel > idle",
            ]
        ),
        (
            .tunneling(.complete),
            [
                .tunnelEnded: "finish > idle", .failed: "cut", .failedSafely: "cut", .deadline: "cut",
                .clientGone: "closeTunnel > idle",
            ]
        ),
        (
            .tunnelHalfClosed,
            [
                .requestEnded: "finishTunnel > idle", .failed: "cut", .failedSafely: "cut", .deadline: "cut",
                .clientGone: "closeTunnel > idle",
            ]
        ),
        (.bufferingBody, [.requestEnded: "answer", .deadline: "requestTimeout", .clientGone: "record > idle"]),
        (.suspended, [.resume: "proceed", .clientGone: "record > idle"]),
        (.respondingLocally, [.deadline: "cut", .clientGone: "record > idle"]),
    ]

    private enum Event: CaseIterable {
        case leased, requestEnded, responseBegan, responseEnded, switched, tunnelEnded, failed, failedSafely, deadline
        case clientGone, resume

        /// What an event gives where it cannot happen.
        var nothing: String {
            switch self {
            case .leased: "giveBack"
            case .responseBegan, .responseEnded, .switched: "false"
            case .resume: "drop"
            case .requestEnded, .tunnelEnded, .failed, .failedSafely, .deadline, .clientGone: "nothing"
            }
        }

        func happen(to machine: inout ExchangeStateMachine) -> String {
            switch self {
            case .leased: "\(machine.leased())"
            case .requestEnded: "\(machine.requestEnded())"
            case .responseBegan: "\(machine.responseStarted())"
            case .responseEnded: "\(machine.responseEnded())"
            case .switched: "\(machine.switched())"
            case .tunnelEnded: "\(machine.tunnelEnded())"
            case .failed: "\(machine.upstreamFailed(mayRetry: false))"
            case .failedSafely: "\(machine.upstreamFailed(mayRetry: true))"
            case .deadline: "\(machine.deadlineExpired())"
            case .clientGone: "\(machine.downstreamClosed())"
            case .resume: "\(machine.resume())"
            }
        }
    }

    @Test("Every event in every state does what the table says, and nothing where it cannot happen")
    func everyTransition() {
        for (state, expectations) in Self.table {
            for event in Event.allCases {
                var machine = Self.machine(in: state)
                #expect(machine.state == state)
                let action = event.happen(to: &machine)
                let parts = (expectations[event] ?? event.nothing).split(separator: " > ").map(String.init)
                #expect(action == parts[0], "\(event) in \(state)")
                let after = "\(machine.state)".replacing("CloakroomProxy.ExchangeStateMachine.RequestBody.", with: "")
                let before = "\(state)".replacing("CloakroomProxy.ExchangeStateMachine.RequestBody.", with: "")
                #expect(after == (parts.count > 1 ? parts[1] : before), "\(event) in \(state)")
            }
        }
    }

    @Test("Whatever happens in whatever order, an exchange is retried at most as often as it may be and can be ended")
    func randomEvents() {
        for seed in 1...200 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var machine = ExchangeStateMachine()
            for _ in 0..<100 {
                let before = machine.state
                switch Int.random(in: 0..<14, using: &generator) {
                case 0 where before == .idle: machine.forward(hasBody: Bool.random(using: &generator))
                case 1 where before == .idle: machine.collect()
                case 2 where before == .bufferingBody || before == .idle: machine.suspend()
                case 3: machine.respondedLocally()
                case 4: machine.finish()
                default:
                    guard let event = Event.allCases.randomElement(using: &generator) else { continue }
                    let action = event.happen(to: &machine)
                    if action == "retry" { #expect(before == .awaitingResponse(.complete)) }
                    if action == "send" {
                        #expect(before == .waitingForConnection(.open) || before == .waitingForConnection(.complete))
                    }
                    if event == .clientGone { #expect(machine.state == .idle) }
                    // There is a tunnel only where one was asked for, and it never becomes an answer again.
                    if ["halfClose", "finish", "finishTunnel", "closeTunnel"].contains(action) {
                        #expect(Self.isTunnel(before))
                    }
                    if Self.isTunnel(machine.state) {
                        #expect(Self.isTunnel(before) || before == .awaitingResponse(.complete))
                    }
                    if Self.isTunnel(before) { #expect(Self.isTunnel(machine.state) || machine.state == .idle) }
                }
                if machine.acceptsBody {
                    #expect(
                        [
                            .awaitingResponse(.open), .streamingResponse(.open), .tunneling(.open), .tunnelHalfClosed,
                            .bufferingBody,
                        ]
                        .contains(machine.state))
                }
            }
            machine.finish()
            #expect(machine.state == .idle)
        }
    }

    private static func isTunnel(_ state: ExchangeStateMachine.State) -> Bool {
        switch state {
        case .tunneling, .tunnelHalfClosed: true
        default: false
        }
    }

    /// A machine that came to a state in the usual way.
    private static func machine(in state: ExchangeStateMachine.State) -> ExchangeStateMachine {
        var machine = ExchangeStateMachine()
        switch state {
        case .idle: break
        case .waitingForConnection(let body): machine.forward(hasBody: body == .open)
        case .awaitingResponse(let body):
            machine.forward(hasBody: body == .open)
            _ = machine.leased()
        case .streamingResponse(let body):
            machine.forward(hasBody: body == .open)
            _ = machine.leased()
            _ = machine.responseStarted()
        case .tunneling(let side):
            machine.forward(hasBody: false)
            _ = machine.leased()
            _ = machine.switched()
            if side == .complete { _ = machine.requestEnded() }
        case .tunnelHalfClosed:
            machine.forward(hasBody: false)
            _ = machine.leased()
            _ = machine.switched()
            _ = machine.tunnelEnded()
        case .bufferingBody: machine.collect()
        case .suspended: machine.suspend()
        case .respondingLocally: machine.respondedLocally()
        }
        return machine
    }
}
