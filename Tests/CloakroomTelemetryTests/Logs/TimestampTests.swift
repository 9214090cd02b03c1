import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Timestamps")
struct TimestampTests {
    @Test(
        "Times are rendered as RFC 3339 in UTC",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1_000_000, "1969-12-31T23:59:59.999Z"),
            (951_782_400_123_999_999, "2000-02-29T00:00:00.123Z"),
            (1_709_251_199_999_000_000, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000Z"),
            (1_767_225_599_005_000_000, "2025-12-31T23:59:59.005Z"),
        ] as [(Int64, String)])
    func rendering(nanoseconds: Int64, expected: String) {
        var renderer = RFC3339Renderer()
        var line = LineBuffer()
        renderer.append(nanoseconds, to: &line)
        expect(line.text, equals: expected)
    }

    @Test("The cached second does not affect other times")
    func caching() {
        var renderer = RFC3339Renderer()
        var line = LineBuffer()
        for nanoseconds: Int64 in [1_001_000_000, 1_999_000_000, 2_000_000_000, 1_500_000_000] {
            renderer.append(nanoseconds, to: &line)
        }
        expect(
            line.text,
            equals: "1970-01-01T00:00:01.001Z1970-01-01T00:00:01.999Z"
                + "1970-01-01T00:00:02.000Z1970-01-01T00:00:01.500Z")
    }
}
