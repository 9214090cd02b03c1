import AsyncHTTPClient
import FoundationEssentials
import MockAPI
import NIOCore
import NIOHTTP1

struct TestResponse {
    let status: Int
    let headers: HTTPHeaders
    let body: ByteBuffer

    func decode<T: Decodable>(_ type: T.Type = T.self) throws -> T {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        return try decoder.decode(type, from: Data(body.readableBytesView))
    }
}

struct TokenResponse: Decodable, Equatable {
    let accessToken: String
    let refreshToken: String
}

extension RunningMockAPI {
    /// Sends a request with the mock's API token, another token or none, and reads the response.
    func send(
        _ method: HTTPMethod,
        _ path: String,
        apiToken: String? = "demo-api-token",
        authorization: String? = nil,
        headers: [(String, String)] = [],
        body: HTTPClientRequest.Body? = nil
    ) async throws -> TestResponse {
        var request = HTTPClientRequest(url: baseURL + path)
        request.method = method
        request.headers = HTTPHeaders(headers)
        if let apiToken { request.headers.add(name: "X-API-TOKEN", value: apiToken) }
        if let authorization { request.headers.add(name: "Authorization", value: authorization) }
        request.body = body
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        return TestResponse(
            status: Int(response.status.code),
            headers: response.headers,
            body: try await response.body.collect(upTo: 1 << 24))
    }

    /// Whether a new connection is accepted. Connects once; the shared client would retry until its timeout.
    func isListening() async throws -> Bool {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.retryConnectionEstablishment = false
        return try await HTTPClient.withHTTPClient(configuration: configuration) { client in
            do {
                _ = try await client.execute(HTTPClientRequest(url: baseURL), timeout: .seconds(30))
                return true
            } catch {
                return false
            }
        }
    }

    func signIn(email: String = "jo@example.com", password: String = "secret") async throws -> TokenResponse {
        try await send(.POST, "/auth", authorization: .basic(email, password)).decode()
    }

    func refresh(_ refreshToken: String) async throws -> TestResponse {
        try await send(.POST, "/auth/refresh", authorization: "Bearer \(refreshToken)")
    }
}

extension String {
    static func basic(_ email: String, _ password: String) -> String {
        "Basic " + Data("\(email):\(password)".utf8).base64EncodedString()
    }
}
