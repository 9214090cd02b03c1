import CloakroomCore
import Glibc

/// Renders wall-clock times as RFC 3339 in UTC with milliseconds. The last rendered second is cached, because many
/// requests share a second and the calendar arithmetic is expensive.
struct RFC3339Renderer {
    /// The rendered texts of an even and of an odd second: requests that end at the same time began in different ones,
    /// so that with one text they would replace it in turn.
    private var even = RenderedSecond()
    private var odd = RenderedSecond()

    private struct RenderedSecond {
        var second = Int64.min
        var text: [UInt8] = []
    }

    /// Appends `2026-01-31T23:59:59.123Z`.
    mutating func append(_ nanosecondsSinceEpoch: Int64, to line: inout LineBuffer) {
        let second = nanosecondsSinceEpoch.floorDivided(by: 1_000_000_000)
        if second & 1 == 0 {
            if second != even.second { even = RenderedSecond(second: second, text: Self.render(second)) }
            line.append(even.text)
        } else {
            if second != odd.second { odd = RenderedSecond(second: second, text: Self.render(second)) }
            line.append(odd.text)
        }
        let milliseconds = (nanosecondsSinceEpoch - second * 1_000_000_000) / 1_000_000
        line.append(padded: Int(milliseconds), digits: 3)
        line.append(byte: UInt8(ascii: "Z"))
    }

    /// The text up to and including the decimal point.
    private static func render(_ second: Int64) -> [UInt8] {
        Array(WallTime(seconds: second).iso8601.utf8.dropLast()) + [UInt8(ascii: ".")]
    }
}

/// The wall clock in nanoseconds since 1970-01-01T00:00:00Z. Injected everywhere, so tests can control the time.
public typealias WallClock = @Sendable () -> Int64

/// The system clock.
public func systemWallClock() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(wallSeconds: time.tv_sec, nanoseconds: time.tv_nsec)
}
