import CloakroomCore
import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("The access log as text")
struct AccessLogTextTests {
    private func lines(_ records: [(record: ExchangeRecord, method: String, path: String)]) -> [String] {
        var formatter = AccessLogFormatter(
            routes: ["video", "odd \"name\""],
            upstreams: [UpstreamTarget(upstream: "api", address: "127.0.0.1", port: 9_000)], limits: ["few"],
            format: .text)
        var line = LineBuffer()
        for (record, method, path) in records {
            formatter.append(record, method: method.utf8.span, path: path.utf8.span, to: &line)
        }
        expect(line.text.hasSuffix("\n"))
        return line.text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
    }

    private var record: ExchangeRecord {
        var record = ExchangeRecord.sample
        record.traceID = ID128(high: 1, low: 2)
        return record
    }

    @Test("A line contains the same values as the JSON line, the first ones in columns")
    func everything() {
        expect(
            lines([(record, "GET", "/videos/1?token=secret")]),
            equals: [
                "2025-12-31T23:59:59.005Z INFO     access: 200 GET        12.345ms /videos/1 route=video"
                    + " decision=forwarded upstream=api upstream_target=127.0.0.1:9000 upstream_ms=12.000"
                    + " overhead_ms=0.345 retries=1 bytes_in=12 bytes_out=650 peer=192.0.2.7 scheme=https protocol=2"
                    + " tls=1.3 session=0000000000abcdef request_id=000000000000000000000000000000ff"
                    + " trace_id=00000000000000010000000000000002"
            ])
    }

    @Test(
        "The path that was sent is logged if it was not the received one",
        arguments: LoggingConfiguration.Format.allCases)
    func sentPath(format: LoggingConfiguration.Format) {
        var formatter = AccessLogFormatter(
            routes: ["video"], upstreams: [UpstreamTarget(upstream: "api", address: "127.0.0.1", port: 9_000)],
            format: format)
        var line = LineBuffer()
        formatter.append(
            record, method: "GET".utf8.span, path: "/x/a?b".utf8.span, sentPath: "/a".utf8.span, to: &line)
        let expected = format == .json ? #""path":"/x/a","sent_path":"/a","# : " sent_path=/a "
        expect(line.text.contains(expected))
    }

    @Test("The listener is logged if there are several", arguments: LoggingConfiguration.Format.allCases)
    func listener(format: LoggingConfiguration.Format) {
        var formatter = AccessLogFormatter(
            routes: ["video"], upstreams: [], listeners: ["127.0.0.1:8080", "127.0.0.1:8443"], format: format)
        var record = record
        record.listenerIndex = 1
        var line = LineBuffer()
        formatter.append(record, method: "GET".utf8.span, path: "/".utf8.span, to: &line)
        let json = #""tls":"1.3","listener":"127.0.0.1:8443""#
        expect(line.text.contains(format == .json ? json : " tls=1.3 listener=127.0.0.1:8443 "))
        expect(!lines([(record, "GET", "/")])[0].contains("listener"))
    }

    @Test(
        "The app of the session, and that it is bound, are logged only if so",
        arguments: LoggingConfiguration.Format.allCases)
    func app(format: LoggingConfiguration.Format) {
        var formatter = AccessLogFormatter(routes: ["video"], upstreams: [], format: format)
        var record = record
        (record.app, record.isBound) = ("shop", true)
        var line = LineBuffer()
        formatter.append(record, method: "GET".utf8.span, path: "/".utf8.span, to: &line)
        let json = #","session":"0000000000abcdef","app":"shop","bound":true,"scheme""#
        expect(line.text.contains(format == .json ? json : " session=0000000000abcdef app=shop bound=true request_id"))
    }

    @Test("Columns are aligned")
    func columns() {
        var records: [ExchangeRecord] = []
        for (method, nanoseconds) in [
            (RequestMethod.get, 0), (.options, 999_999_999), (.delete, 1_000_000_000), (.post, 86_400_000_000),
        ] as [(RequestMethod, UInt64)] {
            var record = record
            record.method = method
            record.durationNanoseconds = nanoseconds
            records.append(record)
        }
        let starts = lines(records.map { ($0, "", "/path") }).map { line in
            line.firstRange(of: "ms /path").map { line.distance(from: line.startIndex, to: $0.lowerBound) }
        }
        expect(Set(starts).count == 1 && starts[0] != nil)
    }

    @Test("No client input creates another line, another value or a control character")
    func hostile() {
        var record = record
        record.method = .other
        record.routeIndex = 1
        let line = lines([(record, "A B=C\u{1b}[2J", "/x\r\n2026 INFO access: 200 session=1\u{202e}\u{9b}")])
        expect(line.count, equals: 1)
        expect(line[0].contains(" \"A B=C\\u001b[2J\" "))
        expect(line[0].contains(" \"/x\\r\\n2026 INFO access: 200 session=1\\u202e\\u009b\" route="))
        expect(line[0].contains(" route=\"odd \\\"name\\\"\" "))
        expect(!line[0].unicodeScalars.contains { $0.properties.generalCategory == .control })
    }
}
