// A real Streamiz application: adds up 8-byte big-endian longs per key in a logged persistent store, as StateApp.java does for Kafka Streams.
// app=ID dir=DIR in=TOPIC bootstrap=HOST:PORT [store=kv] [kind=plain|ts|win|twin] [value=long|longcount] [eos=true] [until=N] [dump=FILE] [halt=true]
// [window=600000] [retention=86400000] [segment=3600000]; until: close after N records of this run (0: as soon as RUNNING).
// mode=driver: without a broker, on Streamiz' own TopologyTestDriver: see Driver.cs. mode=serdes: the bytes that Streamiz' serdes make.
// One JSON line on stdout when it has closed. A line of the dump: key TAB [window start TAB] sum TAB count TAB timestamp.
using System.Buffers.Binary;
using System.Text.Json;
using Confluent.Kafka;
using Microsoft.Extensions.Logging;
using Streamiz.Kafka.Net;
using Streamiz.Kafka.Net.Crosscutting;
using Streamiz.Kafka.Net.Processors.Public;
using Streamiz.Kafka.Net.SerDes;
using Streamiz.Kafka.Net.State;

static class App
{
    public static Dictionary<string, string> Given = new();
    public static string Get(string name, string otherwise = null) => Given.TryGetValue(name, out var v) ? v : otherwise;
    public static long Number(string name, long otherwise) => long.Parse(Get(name, otherwise.ToString()));
    public static ILoggerFactory Log() => LoggerFactory.Create(b => b.SetMinimumLevel(LogLevel.Warning).AddConsole(o => o.LogToStandardErrorThreshold = LogLevel.Trace).AddFilter(l => l >= LogLevel.Warning));
    /// format=N: the version of the table format that RocksDB writes, as releases of Streamiz with an older RocksDB write (1.8: 6; 1.7: 6; 1.4 to 1.6: 5).
    public static void Tables(string store, Streamiz.Kafka.Net.State.RocksDbOptions options)
    {
        if (Get("format") != null) options.SetBlockBasedTableFactory(new RocksDbSharp.BlockBasedTableOptions().SetFormatVersion((int)Number("format", 6)));
    }
    public static long Processed;
    public static string Store, Kind;
    public static bool Counted;

    public static byte[] Add(byte[] old, byte[] delta)
    {
        long sum = (old == null ? 0 : BinaryPrimitives.ReadInt64BigEndian(old)) + BinaryPrimitives.ReadInt64BigEndian(delta);
        var result = new byte[Counted ? 12 : 8];
        BinaryPrimitives.WriteInt64BigEndian(result, sum);
        if (!Counted) return result;
        if (old != null && old.Length != 12) throw new InvalidOperationException($"value of {old.Length} bytes, expected 12");
        BinaryPrimitives.WriteInt32BigEndian(result.AsSpan(8), (old == null ? 0 : BinaryPrimitives.ReadInt32BigEndian(old.AsSpan(8))) + 1);
        return result;
    }

    public static string Line(string key, long? window, byte[] v, long ts) =>
        $"{key}\t{(window == null ? "" : window + "\t")}{BinaryPrimitives.ReadInt64BigEndian(v)}\t{(v.Length == 12 ? BinaryPrimitives.ReadInt32BigEndian(v.AsSpan(8)).ToString() : "-")}\t{ts}";

    static IStoreBuilder Builder()
    {
        var keys = new StringSerDes(); var values = new ByteArraySerDes();
        var retention = TimeSpan.FromMilliseconds(Number("retention", 86_400_000)); var size = TimeSpan.FromMilliseconds(Number("window", 600_000));
        IWindowBytesStoreSupplierOf Window() => new(Stores.PersistentWindowStore(Store, retention, size, Number("segment", 3_600_000)));
        return Kind switch
        {
            "plain" => Stores.KeyValueStoreBuilder(Stores.PersistentKeyValueStore(Store), keys, values).WithLoggingEnabled(null),
            "ts" => Stores.TimestampedKeyValueStoreBuilder(Stores.PersistentKeyValueStore(Store), keys, values).WithLoggingEnabled(null),
            "win" => Stores.WindowStoreBuilder(Window().Supplier, keys, values).WithLoggingEnabled(null),
            "twin" => Stores.TimestampedWindowStoreBuilder(Window().Supplier, keys, values).WithLoggingEnabled(null),
            _ => throw new ArgumentException(Kind),
        };
    }
    record IWindowBytesStoreSupplierOf(Streamiz.Kafka.Net.State.Supplier.IWindowBytesStoreSupplier Supplier);

    public static int Main(string[] args)
    {
        foreach (var a in args) { var i = a.IndexOf('='); Given[a[..i]] = a[(i + 1)..]; }
        Store = Get("store", "kv"); Kind = Get("kind", "plain"); Counted = Get("value", "long") == "longcount";
        if (Get("mode") == "driver") return Driver.Run();
        if (Get("mode") == "serdes") return Driver.Serdes();
        long until = Number("until", 0);
        var config = new StreamConfig<StringSerDes, ByteArraySerDes>
        {
            ApplicationId = Get("app"), BootstrapServers = Get("bootstrap"), StateDir = Get("dir"), AutoOffsetReset = AutoOffsetReset.Earliest, CommitIntervalMs = 1000,
            Guarantee = Get("eos") == "true" ? ProcessingGuarantee.EXACTLY_ONCE : ProcessingGuarantee.AT_LEAST_ONCE,
            Logger = Log(), RocksDbConfigHandler = Tables, NumStreamThreads = (int)Number("threads", 1),
        };
        config.InnerExceptionHandler = e => { Errors.Add(e.ToString().Replace('\n', ' ')); return ExceptionHandlerResponse.FAIL; };
        var builder = new StreamBuilder();
        builder.Stream<string, byte[]>(Get("in")).Process(ProcessorBuilder.New<string, byte[]>().Processor<Sum>().StateStore(Builder()).Build());
        var stream = new KafkaStream(builder.Build(), config);
        long restored = 0; var restores = new List<object>(); var starts = new Dictionary<string, long>(); var running = new ManualResetEventSlim();
        KafkaStream.State now = null;
        stream.OnRestoreStartEvent += (tp, s, from, to) => { lock (starts) starts[tp.ToString()] = from; };
        stream.OnRestoreEndEvent += (tp, s, n) => { lock (starts) { restored += n; restores.Add(new { tp = tp.ToString(), from = starts.GetValueOrDefault(tp.ToString(), -1), n }); } };
        stream.StateChanged += (old, state) => { now = state; if (state == KafkaStream.State.RUNNING || state == KafkaStream.State.ERROR) running.Set(); };
        var clock = System.Diagnostics.Stopwatch.StartNew();
        stream.StartAsync().Wait(TimeSpan.FromSeconds(60));
        running.Wait(TimeSpan.FromSeconds(120));
        long ms = clock.ElapsedMilliseconds;
        while (Interlocked.Read(ref Processed) < until && Errors.Count == 0 && now != KafkaStream.State.ERROR) Thread.Sleep(20);
        long entries = -1;
        if (Errors.Count == 0 && now == KafkaStream.State.RUNNING) { Thread.Sleep(until > 0 ? 2500 : 500); entries = Dump(stream, Get("dump")); }
        var last = now?.Name;
        if (Get("halt") == "true") { Console.WriteLine($"{{\"halted\":true,\"processed\":{Processed}}}"); Console.Out.Flush(); System.Diagnostics.Process.GetCurrentProcess().Kill(); }
        stream.Dispose();
        Console.WriteLine(JsonSerializer.Serialize(new { state = last, ms_to_running = ms, restored, restores, processed = Processed, entries, errors = Errors }));
        return Errors.Count == 0 ? 0 : 1;
    }
    public static readonly List<string> Errors = new();

    static long Dump(KafkaStream stream, string file)
    {
        var lines = new List<string>();
        switch (Kind)
        {
            case "plain": foreach (var e in stream.Store(StoreQueryParameters.FromNameAndType(Store, QueryableStoreTypes.KeyValueStore<string, byte[]>())).All()) lines.Add(Line(e.Key, null, e.Value, -2)); break;
            case "ts": foreach (var e in stream.Store(StoreQueryParameters.FromNameAndType(Store, QueryableStoreTypes.TimestampedKeyValueStore<string, byte[]>())).All()) lines.Add(Line(e.Key, null, e.Value.Value, e.Value.Timestamp)); break;
            default:
                var s = stream.Store(StoreQueryParameters.FromNameAndType(Store, QueryableStoreTypes.WindowStore<string, byte[]>()));
                using (var i = s.All()) while (i.MoveNext()) lines.Add(Line(i.Current.Value.Key.Key, i.Current.Value.Key.Window.StartMs, i.Current.Value.Value, -2));
                break;
        }
        lines.Sort(string.CompareOrdinal);
        if (file != null) File.WriteAllLines(file, lines);
        return lines.Count;
    }
}

/// Adds the input to the key's value, or deletes the key where the input is null.
class Sum : IProcessor<string, byte[]>
{
    IKeyValueStore<string, byte[]> plain; ITimestampedKeyValueStore<string, byte[]> ts; IWindowStore<string, byte[]> win; ITimestampedWindowStore<string, byte[]> twin;
    public void Init(ProcessorContext<string, byte[]> context)
    {
        var s = context.GetStateStore(App.Store);
        plain = s as IKeyValueStore<string, byte[]>; ts = s as ITimestampedKeyValueStore<string, byte[]>; win = s as IWindowStore<string, byte[]>; twin = s as ITimestampedWindowStore<string, byte[]>;
    }
    public void Process(Record<string, byte[]> r)
    {
        long time = r.Timestamp.UnixTimestampMs, start = time - time % App.Number("window", 600_000);
        if (App.Kind == "plain") { if (r.Value == null) plain.Delete(r.Key); else plain.Put(r.Key, App.Add(plain.Get(r.Key), r.Value)); }
        else if (App.Kind == "ts") { if (r.Value == null) ts.Delete(r.Key); else ts.Put(r.Key, ValueAndTimestamp<byte[]>.Make(App.Add(ts.Get(r.Key)?.Value, r.Value), time)); }
        else if (App.Kind == "win") win.Put(r.Key, r.Value == null ? null : App.Add(win.Fetch(r.Key, start), r.Value), start);
        else twin.Put(r.Key, r.Value == null ? null : ValueAndTimestamp<byte[]>.Make(App.Add(twin.Fetch(r.Key, start)?.Value, r.Value), time), start);
        Interlocked.Increment(ref App.Processed);
    }
    public void Close() { }
}
