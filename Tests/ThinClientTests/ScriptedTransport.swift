import Foundation
import Synchronization
import ThinClient

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A transport without a network: records the requests, and responds with the responses of a script.
final class ScriptedTransport: Transport {
    struct Sent: Equatable {
        let method: String?
        let url: String?
        /// By name in lower case.
        let fields: [String: String]
        let body: String?
    }

    private struct NoResponse: Error {}

    private struct State {
        var responses: [(status: Int, fields: [String: String], body: String)] = []
        var sent: [Sent] = []
    }

    private let state = Mutex(State())

    var sent: [Sent] { state.withLock(\.sent) }

    func respond(_ status: Int, _ body: String = "", _ fields: [String: String] = ["Content-Type": "application/json"])
    {
        state.withLock { $0.responses.append((status, fields, body)) }
    }

    func problem(_ status: Int, _ members: String, _ fields: [String: String] = [:]) {
        respond(
            status, "{\"title\":\"t\",\"detail\":\"Sentence.\",\"request_id\":\"abc\",\(members)}",
            fields.merging(["Content-Type": "application/problem+json"]) { $1 })
    }

    func send(_ request: URLRequest) async throws -> (Data, HTTPURLResponse) {
        let next = state.withLock { state in
            let body = request.httpBody.map { String(decoding: $0, as: UTF8.self) }
            state.sent.append(
                Sent(
                    method: request.httpMethod, url: request.url?.absoluteString,
                    fields: Dictionary(
                        (request.allHTTPHeaderFields ?? [:]).map { ($0.key.lowercased(), $0.value) }
                    ) { $1 }, body: body))
            return state.responses.isEmpty ? nil : state.responses.removeFirst()
        }
        guard let next, let url = request.url,
            let response = HTTPURLResponse(
                url: url, statusCode: next.status, httpVersion: nil, headerFields: next.fields)
        else { throw NoResponse() }
        return (Data(next.body.utf8), response)
    }
}
