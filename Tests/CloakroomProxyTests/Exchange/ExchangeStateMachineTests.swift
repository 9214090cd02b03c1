import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The states and events of one exchange")
struct ExchangeStateMachineTests {
    @Test("A request body is accepted, held back and relayed in certain states only")
    func bodies() {
        typealias State = ExchangeStateMachine.State
        let accepting: [State] = [
            .gathering, .awaitingResponse(.open), .streamingResponse(.open), .tunneling(.open), .tunnelHalfClosed,
            .bufferingBody,
        ]
        let holding: [State] = [.gathering, .waitingForConnection(.open), .waitingForConnection(.complete)]
        let relaying: [State] = [
            .streamingResponse(.open), .streamingResponse(.complete), .tunneling(.open), .tunneling(.complete),
        ]
        for (state, _) in Self.table {
            let machine = Self.machine(in: state)
            expect(machine.acceptsBody, equals: accepting.contains(state), "\(state)")
            expect(machine.holdsBody, equals: holding.contains(state), "\(state)")
            expect(machine.isRelaying, equals: relaying.contains(state), "\(state)")
        }
    }

    @Test("A rejected token is replaced, and the request sent once more, only if it is complete and has no response")
    func replay() {
        for (state, _) in Self.table {
            var machine = Self.machine(in: state)
            let isReplayed = state == .awaitingResponse(.complete)
            expect(machine.tokenRejected(), equals: isReplayed)
            expect(machine.state, equals: (isReplayed ? .suspended : state))
            guard isReplayed else { continue }
            expect(machine.resume(), equals: .proceed)
            machine.forwardAgain()
            expect(machine.state, equals: .waitingForConnection(.complete))
            expect(machine.leased(), equals: .send)
        }
    }

    /// The result of each event in each state, and the next state if it changes.
    private static let table: KeyValuePairs<ExchangeStateMachine.State, [Event: String]> = [
        .idle: [:],
        .gathering: [
            .requestEnded: "lease > waitingForConnection(complete)",
            .enough: "true > waitingForConnection(open)", .deadline: "requestTimeout",
            .clientGone: "record > idle",
        ],
        .waitingForConnection(.open): [
            .leased: "send > awaitingResponse(open)", .failed: "respond", .failedSafely: "respond",
            .clientGone: "cancelLease > idle",
        ],
        .waitingForConnection(.complete): [
            .leased: "send > awaitingResponse(complete)", .failed: "respond", .failedSafely: "respond",
            .clientGone: "cancelLease > idle",
        ],
        .awaitingResponse(.open): [
            .requestEnded: "finishRequest > awaitingResponse(complete)",
            .responseBegan: "true > streamingResponse(open)",
            .failed: "respond", .failedSafely: "respond", .deadline: "requestTimeout",
            .clientGone: "closeUpstream > idle",
        ],
        .awaitingResponse(.complete): [
            .requestEnded: "finishRequest", .responseBegan: "true > streamingResponse(complete)",
            .switched: "true > tunneling(open)", .failed: "respond",
            .failedSafely: "retry > waitingForConnection(complete)", .deadline: "responseTimeout",
            .clientGone: "closeUpstream > idle",
        ],
        .streamingResponse(.open): [
            .requestEnded: "finishRequest > streamingResponse(complete)", .responseEnded: "true > idle",
            .failed: "cut",
            .failedSafely: "cut", .deadline: "cut", .clientGone: "closeUpstream > idle",
        ],
        .streamingResponse(.complete): [
            .requestEnded: "finishRequest", .responseEnded: "true > idle", .failed: "cut", .failedSafely: "cut",
            .deadline: "cut", .clientGone: "closeUpstream > idle",
        ],
        .tunneling(.open): [
            .requestEnded: "halfClose > tunneling(complete)", .tunnelEnded: "halfClose > tunnelHalfClosed",
            .failed: "cut", .failedSafely: "cut", .deadline: "cut", .clientGone: "closeTunnel > idle",
        ],
        .tunneling(.complete): [
            .tunnelEnded: "finish > idle", .failed: "cut", .failedSafely: "cut", .deadline: "cut",
            .clientGone: "closeTunnel > idle",
        ],
        .tunnelHalfClosed: [
            .requestEnded: "finishTunnel > idle", .failed: "cut", .failedSafely: "cut", .deadline: "cut",
            .clientGone: "closeTunnel > idle",
        ],
        .bufferingBody: [.requestEnded: "respond", .deadline: "requestTimeout", .clientGone: "record > idle"],
        .suspended: [.resume: "proceed", .clientGone: "record > idle"],
        .respondingLocally: [.deadline: "cut", .clientGone: "record > idle"],
    ]

    private enum Event: CaseIterable {
        case leased, requestEnded, responseBegan, responseEnded, switched, tunnelEnded, failed, failedSafely, deadline
        case clientGone, resume, enough

        /// The result of an event that cannot happen in the state.
        var nothing: String {
            switch self {
            case .leased: "releaseConnection"
            case .responseBegan, .responseEnded, .switched, .enough: "false"
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
            case .enough: "\(machine.stopGathering())"
            }
        }
    }

    @Test("Every event in every state has the result of the table, and events that cannot happen have no effect")
    func everyTransition() {
        for (state, expectations) in Self.table {
            for event in Event.allCases {
                var machine = Self.machine(in: state)
                expect(machine.state, equals: state)
                let action = event.happen(to: &machine)
                let parts = (expectations[event] ?? event.nothing).split(separator: " > ").map(String.init)
                expect(action, equals: parts[0], "\(event) in \(state)")
                let after = "\(machine.state)".replacing("CloakroomProxy.ExchangeStateMachine.RequestBody.", with: "")
                let before = "\(state)".replacing("CloakroomProxy.ExchangeStateMachine.RequestBody.", with: "")
                expect(after, equals: (parts.count > 1 ? parts[1] : before), "\(event) in \(state)")
            }
        }
    }

    @Test("Any sequence of events retries an exchange at most as often as allowed, and the exchange can be ended")
    func randomEvents() {
        for seed in 1...200 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var machine = ExchangeStateMachine()
            for _ in 0..<100 {
                let before = machine.state
                switch Int.random(in: 0..<16, using: &generator) {
                case 0 where before == .idle: machine.forward(hasBody: Bool.random(using: &generator))
                case 1 where before == .idle: machine.collect()
                case 14 where before == .idle: machine.gather()
                case 2 where before == .bufferingBody || before == .idle: machine.suspend()
                case 3: machine.respondedLocally()
                case 4: machine.finish()
                default:
                    guard let event = Event.allCases.randomElement(using: &generator) else { continue }
                    let action = event.happen(to: &machine)
                    if action == "retry" { expect(before, equals: .awaitingResponse(.complete)) }
                    if action == "send" {
                        expect(before == .waitingForConnection(.open) || before == .waitingForConnection(.complete))
                    }
                    if event == .clientGone { expect(machine.state, equals: .idle) }
                    // There is a tunnel only if one was requested, and it never becomes a response again.
                    if ["halfClose", "finish", "finishTunnel", "closeTunnel"].contains(action) {
                        expect(Self.isTunnel(before))
                    }
                    if Self.isTunnel(machine.state) {
                        expect(Self.isTunnel(before) || before == .awaitingResponse(.complete))
                    }
                    if Self.isTunnel(before) { expect(Self.isTunnel(machine.state) || machine.state == .idle) }
                }
                if machine.acceptsBody {
                    expect(
                        [
                            .awaitingResponse(.open), .streamingResponse(.open), .tunneling(.open), .tunnelHalfClosed,
                            .bufferingBody, .gathering,
                        ]
                        .contains(machine.state))
                }
            }
            machine.finish()
            expect(machine.state, equals: .idle)
        }
    }

    private static func isTunnel(_ state: ExchangeStateMachine.State) -> Bool {
        switch state {
        case .tunneling, .tunnelHalfClosed: true
        default: false
        }
    }

    /// A state machine that reached a state by regular events.
    private static func machine(in state: ExchangeStateMachine.State) -> ExchangeStateMachine {
        var machine = ExchangeStateMachine()
        switch state {
        case .idle: break
        case .gathering: machine.gather()
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
